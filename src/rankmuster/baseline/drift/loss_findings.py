"""Losses as findings: of one node, of many at once, or of a change of class, with what the slow ones have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rankmuster.baseline.drift.attribute import Attributes, attribute
from rankmuster.baseline.drift.lanes import lane_words
from rankmuster.baseline.drift.loss import Loss, Shape
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.spreads import Rise
from rankmuster.baseline.drift.systematic import Together, together
from rankmuster.baseline.drift.words import day, many, percent, some
from rankmuster.model.drift import DriftFinding, DriftKind, DriftScope
from rankmuster.model.judgement import Regime

STOP = "stop the rollout: take no further node into it"
TEST = "its fingerprint did not change, so this is the node itself: test it by `rankmuster admit` before it serves on"
NOTHING_SHARED = (
    "no part of their fingerprints separates them from the others: look for what is in none (a switch, a rack, a "
    "firmware that cannot be read)"
)
FASTER = "faster than before under one fingerprint: something that no fingerprint has was changed"


@dataclass(frozen=True, slots=True)
class Names:
    """Node hashes as people know them. `everybody`: name -> attributes of all nodes with a known fingerprint."""

    names: Mapping[str, str]
    everybody: Mapping[str, Attributes]

    def of(self, node_hash: str) -> str:
        """The name of a node, or its hash where nobody named it."""
        return self.names.get(node_hash, node_hash)

    def cause(self, nodes: Collection[str], settings: DriftSettings) -> str:
        """What these nodes share and the others have not, in words."""
        if not set(nodes) <= set(self.everybody):
            return "`rankmuster drift --all` says what they share"
        return "; ".join(one.words for one in attribute(nodes, self.everybody, settings)) or NOTHING_SHARED


def kind_of(loss: Loss) -> DriftKind:
    """Small sizes drift in latency, the others in bandwidth."""
    return DriftKind.LATENCY if loss.lane.regime is Regime.LATENCY else DriftKind.BANDWIDTH


def node_losses(
    losses: Sequence[Loss], measured: Mapping[str, int], names: Names, settings: DriftSettings, profile: str
) -> tuple[DriftFinding, ...]:
    """Losses within one class. `measured`: nodes of each class that were measured."""
    found: list[DriftFinding] = []
    groups: dict[tuple[str, DriftKind, bool], dict[str, list[Loss]]] = {}
    for loss in losses:
        key = (loss.classes[1], kind_of(loss), loss.change < 0)
        groups.setdefault(key, {}).setdefault(names.of(loss.node), []).append(loss)
    for (class_hash, kind, slower), nodes in groups.items():
        starts = {name: min(one.since for one in of_node) for name, of_node in nodes.items()}
        # what takes weeks is not at once: in as many weeks more nodes fall ill each by itself
        span = max(one.span_s for of_node in nodes.values() for one in of_node)
        many_at_once = together(starts, measured.get(class_hash, len(nodes)), settings, span_s=span)
        if many_at_once is not None:
            found.append(_many(class_hash, kind, slower, many_at_once, nodes, names, settings, profile))
        for name, of_node in nodes.items():
            if many_at_once is None or name not in many_at_once.nodes:
                found.append(_one(class_hash, kind, name, of_node, profile))
    return tuple(found)


def _one(class_hash: str, kind: DriftKind, name: str, losses: Sequence[Loss], profile: str) -> DriftFinding:
    worst = max(losses, key=lambda one: abs(one.change))
    others = f" (and {many(len(losses) - 1, 'more lane')})" if len(losses) > 1 else ""
    if worst.shape is Shape.CREEP and worst.per_week is not None:
        how = f"has become {percent(worst.change)} little by little, {abs(worst.per_week) * 100:.1f} % a week"
    else:
        how = f"is {percent(worst.change)} since {day(worst.since)}"
    return DriftFinding(
        kind=kind,
        scope=DriftScope.NODE,
        class_hash=class_hash,
        nodes=(name,),
        statement=f"{lane_words(worst.lane)} {how}{others}, profile {profile}",
        effect=TEST if worst.change < 0 else FASTER,
        size=worst.change,
        since=min(one.since for one in losses),
    )


def _many(
    class_hash: str,
    kind: DriftKind,
    slower: bool,
    group: Together,
    nodes: Mapping[str, Sequence[Loss]],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> DriftFinding:
    changes = sorted(min((one.change for one in nodes[name]), key=lambda change: -abs(change)) for name in group.nodes)
    middle = changes[len(changes) // 2]
    worst = max((one for name in group.nodes for one in nodes[name]), key=lambda one: abs(one.change))
    return DriftFinding(
        kind=kind,
        scope=DriftScope.SYSTEMATIC,
        class_hash=class_hash,
        nodes=group.nodes,
        statement=(
            f"{many(len(group.nodes))} of {group.of:,} are {percent(middle)} (median) at once since "
            f"{day(group.since)}, most of all {lane_words(worst.lane)}: {some(group.nodes)}, profile {profile}; "
            f"{names.cause(group.nodes, settings)}"
        ),
        effect=STOP if slower else FASTER,
        size=middle,
        since=group.since,
    )


def spread_findings(
    rises: Sequence[Rise], measured: Mapping[str, int], names: Names, settings: DriftSettings
) -> tuple[DriftFinding, ...]:
    """Ranks that drift apart, of one node or of many at once."""
    found: list[DriftFinding] = []
    groups: dict[str, dict[str, Rise]] = {}
    for rise in rises:
        groups.setdefault(rise.classes[1], {})[names.of(rise.node)] = rise
    for class_hash, nodes in groups.items():
        starts = {name: rise.since for name, rise in nodes.items()}
        group = together(starts, measured.get(class_hash, len(nodes)), settings)
        if group is not None:
            found.append(
                DriftFinding(
                    kind=DriftKind.DISPERSION,
                    scope=DriftScope.SYSTEMATIC,
                    class_hash=class_hash,
                    nodes=group.nodes,
                    statement=f"ranks drift apart on {many(len(group.nodes))} of {group.of:,} at once since "
                    f"{day(group.since)}: {some(group.nodes)}; {names.cause(group.nodes, settings)}",
                    effect=STOP,
                    since=group.since,
                )
            )
        for name, rise in nodes.items():
            if group is None or name not in group.nodes:
                found.append(_apart(class_hash, name, rise))
    return tuple(found)


def _apart(class_hash: str, name: str, rise: Rise) -> DriftFinding:
    return DriftFinding(
        kind=DriftKind.DISPERSION,
        scope=DriftScope.NODE,
        class_hash=class_hash,
        nodes=(name,),
        statement=(
            f"the slowest rank takes {rise.after:.0f} % longer than the fastest in {lane_words(rise.lane)}, "
            f"{rise.before:.0f} % before {day(rise.since)}"
        ),
        effect="one GPU or one rail falls behind, and all ranks wait for it: `rankmuster bench pairs` names it",
        since=rise.since,
    )
