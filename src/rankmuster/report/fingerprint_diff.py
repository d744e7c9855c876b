"""What differs between two fingerprints, on a terminal and as JSON (`rankmuster.fingerprint-diff/1`)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.fingerprint import Change, Fingerprint
from rankmuster.model.unknown import Unknown
from rankmuster.report import theme
from rankmuster.report.fingerprint_words import short, value
from rankmuster.report.paper import Paper
from rankmuster.report.words import clock

SCHEMA = "rankmuster.fingerprint-diff/1"

SHOWN = 60
"""Characters of a value in the line of its change; hashes and reasons are longer, and JSON has them whole."""

_UNKNOWN = "unknown ("


def render(before: Fingerprint, after: Fingerprint, found: Sequence[Change], console: Console) -> None:
    """Print the changes, most consequential first as they come, after the answer whether the baseline applies."""
    paper = Paper(console)
    applies = all(change.applies for change in found)
    look = theme.TONES[
        FaultClass.HEALTHY
        if not found
        else FaultClass.COLLECTIVE_DESYNC
        if not applies
        else FaultClass.PERFORMANCE_DEGRADATION
    ]
    paper.line(paper.text(f"{_answer(found)}:", look.terminal), paper.text(_baseline(found), "bold"), whole=True)
    for name, one in (("A", before), ("B", after)):
        words = f"{name}: {one.host or 'host unknown'}, taken {clock(one.taken_at, date=True)}"
        paper.line(paper.text(f"{words}, class {short(one.class_hash)}, node {short(one.node_hash)}", "dim"))
    if found:
        paper.heading("Changes", "most consequential first")
    for change in found:
        sign, style = _sign(change)
        told = f"{_cut(change.before)} -> {_cut(change.after)}"
        if change.before == change.after:
            told = f"{change.before}, on both sides"
        paper.item(sign, paper.text(f"{change.part}:", "bold"), paper.text(told), style=style)
        if change.effect:
            paper.line(paper.text(change.effect), indent=4)
    again = list(dict.fromkeys(what for change in found for what in change.regenerate))
    if again:
        paper.heading("Regenerate")
        for what in again:
            paper.item("-", paper.text(what))


def as_json(before: Fingerprint, after: Fingerprint, found: Sequence[Change]) -> str:
    """Fields may be added, never renamed."""
    document = {
        "schema": SCHEMA,
        "same": not found,
        "baseline_applies": all(change.applies for change in found),
        "regenerate": list(dict.fromkeys(what for change in found for what in change.regenerate)),
        "before": _side(before),
        "after": _side(after),
        "changes": [
            {
                "part": change.part,
                "before": change.before,
                "after": change.after,
                "effect": change.effect,
                "applies": change.applies,
                "regenerate": list(change.regenerate),
            }
            for change in found
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _side(one: Fingerprint) -> dict[str, Any]:
    hashes = {
        name: None if isinstance(found, Unknown) else found
        for name, found in (
            ("class_hash", one.class_hash),
            ("kin_hash", one.kin_hash),
            ("topology_hash", one.topology_hash),
            ("node_hash", one.node_hash),
        )
    }
    return {"host": one.host, "taken_at": one.taken_at if math.isfinite(one.taken_at) else None, **hashes}


def _answer(found: Sequence[Change]) -> str:
    if not found:
        return "the same"
    unknown = sum(1 for change in found if _undecided(change))
    known = len(found) - unknown
    told = [f"{known} change{'' if known == 1 else 's'}"] if known else []
    told += [f"{unknown} undecided"] if unknown else []
    return ", ".join(told)


def _baseline(found: Sequence[Change]) -> str:
    if all(change.applies for change in found):
        return "the old baseline applies"
    if all(change.applies or _undecided(change) for change in found):
        return "it cannot be told whether the old baseline applies"
    return "the old baseline does not apply"


def _sign(change: Change) -> tuple[str, str]:
    if _undecided(change):
        return "?", theme.TONES[FaultClass.INCONCLUSIVE].terminal
    if not change.applies:
        return "x", theme.ROLES[Role.CULPRIT].terminal
    return ("!", theme.ROLES[Role.SUSPECT].terminal) if change.regenerate else ("-", "")


def _undecided(change: Change) -> bool:
    return change.before.startswith(_UNKNOWN) or change.after.startswith(_UNKNOWN)


def _cut(text: str) -> str:
    if text.startswith("sha256:"):
        return short(text)
    return value(text) if len(text) <= SHOWN or text.startswith(_UNKNOWN) else f"{text[:SHOWN]}..."
