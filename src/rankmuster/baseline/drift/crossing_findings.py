"""A changed fingerprint and what the results did with it: attributed to the change, and no fault of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.baseline.drift.attribute import attribute
from rankmuster.baseline.drift.changed import NodeChanges
from rankmuster.baseline.drift.crossing import Crossing
from rankmuster.baseline.drift.lanes import lane_words
from rankmuster.baseline.drift.loss import Loss
from rankmuster.baseline.drift.loss_findings import STOP, Names
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.words import changed, day, many, percent, short, some
from rankmuster.model.drift import DriftFinding, DriftKind, DriftScope
from rankmuster.model.fingerprint import Change
from rankmuster.model.judgement import Regime


def crossing_findings(
    crossings: Sequence[Crossing],
    nodes: Mapping[str, NodeChanges],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> tuple[DriftFinding, ...]:
    """Those that count and last, the lanes of one change of class and direction together. `nodes`: by node hash."""
    groups: dict[tuple[str, str, DriftKind, bool], list[Crossing]] = {}
    for one in crossings:
        if one.counts and one.lasting and not one.returns and (settings.since is None or one.since >= settings.since):
            kind = DriftKind.LATENCY if one.lane.regime is Regime.LATENCY else DriftKind.BANDWIDTH
            groups.setdefault((one.before, one.after, kind, one.shift < 0), []).append(one)
    return tuple(
        _finding(key[2], lanes, common_changes(key[0], key[1], nodes), names, settings, profile)
        for key, lanes in groups.items()
    )


def over_notes(
    crossings: Sequence[Crossing],
    nodes: Mapping[str, NodeChanges],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> tuple[str, ...]:
    """Changes of class that cost something and were taken back, in a sentence each: what was and is no more."""
    worst: dict[tuple[str, str], Crossing] = {}
    for one in crossings:
        known = worst.get((one.before, one.after))
        if not one.counts or one.over is None or one.shift >= 0 or one.returns:
            continue
        if settings.since is not None and one.over < settings.since:
            continue
        if known is None or one.shift < known.shift:
            worst[one.before, one.after] = one
    return tuple(
        f"profile {profile}: {lane_words(one.lane)} was {percent(one.shift)} with "
        f"{_what(common_changes(one.before, one.after, nodes), one)} from {day(one.since)} on; since "
        f"{day(one.over or one.since)} {many(len(one.nodes))} that had it are at their level again: "
        f"{some(tuple(sorted(names.of(node) for node in one.nodes)))}"
        for one in worst.values()
    )


def common_changes(before: str, after: str, nodes: Mapping[str, NodeChanges]) -> tuple[Change, ...]:
    """What changed on the nodes that went from one class to the other, and makes the old baseline not applicable."""
    for one in nodes.values():
        if (one.before_class, one.class_hash) == (before, after):
            found = tuple(change for change in one.changes if not change.applies)
            if found:
                return found
    for one in nodes.values():  # it went through both, and is in a third one now, or back in the first
        found = one.between(before, after)
        if found:
            return found
    return ()


def _what(changes: Sequence[Change], one: Crossing) -> str:
    return ", ".join(changed(change) for change in changes) or f"class {short(one.before)} -> {short(one.after)}"


def _finding(
    kind: DriftKind,
    lanes: Sequence[Crossing],
    changes: Sequence[Change],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> DriftFinding:
    worst = max(lanes, key=lambda one: abs(one.shift))
    members = tuple(sorted(names.of(node) for node in worst.lasting))
    slower = tuple(sorted(names.of(node) for node in set(worst.moved) & set(worst.lasting)))
    shared = attribute(slower, names.everybody, settings)
    back = len(worst.nodes) - len(members)
    more = f" (and {many(len(lanes) - 1, 'more lane')})" if len(lanes) > 1 else ""
    systematic = len(members) >= settings.least_nodes
    where = f"{len(slower):,} of the {many(len(members))} that changed: {some(members)}" if len(members) > 1 else ""
    return DriftFinding(
        kind=kind,
        scope=DriftScope.SYSTEMATIC if systematic else DriftScope.NODE,
        class_hash=worst.after,
        nodes=members,
        statement="; ".join(
            filter(
                None,
                (
                    f"{lane_words(worst.lane)} is {percent(worst.shift)}{more} with "
                    f"{_what(changes, worst)}, since {day(worst.since)}, profile {profile}",
                    where,
                    f"{many(back, 'other node')} with it {'is' if back == 1 else 'are'} at the old level again"
                    if back
                    else "",
                    *(one.words for one in shared),
                ),
            )
        ),
        effect=_effect(worst.shift, systematic),
        size=worst.shift,
        since=worst.since,
        change=changes[0] if changes else None,
    )


def _effect(shift: float, systematic: bool) -> str:
    if shift >= 0:
        return "the change made it faster; its old baseline does not apply"
    if systematic:
        return f"{STOP}, and take the change back or accept its level as the new baseline"
    return "the change made it slower, not the node; the old baseline does not apply"


def lone_losses(
    losses: Sequence[Loss],
    crossings: Sequence[Crossing],
    nodes: Mapping[str, NodeChanges],
    names: Names,
    profile: str,
) -> tuple[DriftFinding, ...]:
    """Nodes that got slower at a change which did nothing to others: likely the node, and not the change."""
    by_place = {(one.before, one.after, one.lane): one for one in crossings}
    found: dict[str, tuple[Loss, Crossing]] = {}
    for loss in losses:
        crossing = by_place.get((*loss.classes, loss.lane))
        if crossing is None or crossing.counts or loss.change >= 0:
            continue
        if loss.node not in found or loss.change < found[loss.node][0].change:
            found[loss.node] = (loss, crossing)
    return tuple(_lone(loss, crossing, nodes, names, profile) for loss, crossing in found.values())


def _lone(loss: Loss, crossing: Crossing, nodes: Mapping[str, NodeChanges], names: Names, profile: str) -> DriftFinding:
    changes = common_changes(*loss.classes, nodes)
    what = ", ".join(changed(change) for change in changes) or "its change of class"
    others = len(crossing.nodes) - 1
    return DriftFinding(
        kind=DriftKind.LATENCY if loss.lane.regime is Regime.LATENCY else DriftKind.BANDWIDTH,
        scope=DriftScope.NODE,
        class_hash=loss.classes[1],
        nodes=(names.of(loss.node),),
        statement=f"{lane_words(loss.lane)} is {percent(loss.change)} since {day(loss.since)}, when it got {what}, "
        f"profile {profile}"
        + (f"; {many(others, 'other node')} with the same change did not change alike" if others else ""),
        effect="the old baseline does not apply"
        + ("; the change alone does not explain it: test the node by `rankmuster admit`" if others else ""),
        size=loss.change,
        since=loss.since,
        change=changes[0] if changes else None,
    )
