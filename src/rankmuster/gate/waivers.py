"""Whether an item that did not pass is let through by its owner's word. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankmuster.model.release import Item, ItemResult, ItemState, Waiver
from rankmuster.report.release_words import day

NEVER = {
    Item.ARTEFACT: "what is not known cannot be rolled back to",
    Item.FINGERPRINTS: "without them no node can be compared with its kind, now or later",
    Item.RUNBOOK: "without it nobody brings the instance back",
}
"""Items that nobody can waive, and why: all others rest on them. Single answers may be firm too (`ItemResult.firm`)."""

LONGEST_DAYS = 90.0
"""Of a waiver, from when it is looked at: a promise is remembered for a quarter. Longer ones are not taken."""
_DAY = 86_400.0


def with_waivers(
    results: Sequence[ItemResult], waivers: Sequence[Waiver], release: str, now: float
) -> tuple[ItemResult, ...]:
    """Each item with the waiver that lets it through, or with why the one there is does not. `now`: unix seconds."""
    return tuple(_waived(one, [w for w in waivers if w.item is one.item], release, now) for one in results)


def _waived(result: ItemResult, waivers: Sequence[Waiver], release: str, now: float) -> ItemResult:
    notes = []
    for waiver in waivers:
        against = _against(waiver, result.firm, release, now)
        if result.state is ItemState.PASS:
            return replace(result, note=f"the waiver of {waiver.owner} is not needed any more: remove it")
        if against is None:
            return replace(result, state=ItemState.WAIVED, waiver=waiver)
        notes.append(against)
    return replace(result, note="; ".join(notes)) if notes else result


def _against(waiver: Waiver, firm: str, release: str, now: float) -> str | None:
    """Why a waiver does not count; None: it does."""
    who = f"the waiver of {waiver.owner}"
    if why := NEVER.get(waiver.item, firm):
        return f"{who} does not count: {waiver.item.value} cannot be waived, since {why}"
    if waiver.release is not None and waiver.release != release:
        return f"{who} is for {waiver.release}, not for {release}"
    if waiver.until <= now:
        return f"{who} ended on {day(waiver.until - 1.0)}"
    if waiver.until > now + LONGEST_DAYS * _DAY:
        return f"{who} is until {day(waiver.until - 1.0)}: at most {LONGEST_DAYS:.0f} days are taken"
    return None
