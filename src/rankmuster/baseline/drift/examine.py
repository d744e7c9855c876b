"""Drift of a fleet: fingerprints against the stored ones, results against the history, and what is common to all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankmuster.baseline.drift.attribute import attributes_of
from rankmuster.baseline.drift.changed import NodeChanges, compared, same_machine
from rankmuster.baseline.drift.changed_findings import changed_findings, why_not
from rankmuster.baseline.drift.choice_findings import choice_findings
from rankmuster.baseline.drift.class_levels import ClassStep, class_changes, with_points
from rankmuster.baseline.drift.crossing import Crossing, crossings
from rankmuster.baseline.drift.crossing_findings import crossing_findings, lone_losses, over_notes
from rankmuster.baseline.drift.fleet import Fleet
from rankmuster.baseline.drift.lanes import Runs, runs_of
from rankmuster.baseline.drift.loss_findings import Names, node_losses, spread_findings
from rankmuster.baseline.drift.measured import unmeasured
from rankmuster.baseline.drift.regenerate import regenerate
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.spreads import rises
from rankmuster.baseline.drift.steps import losses
from rankmuster.model.drift import DriftFinding, DriftKind, DriftReport, DriftScope
from rankmuster.model.history import ClassHistory

LOSSES = (DriftKind.BANDWIDTH, DriftKind.LATENCY)
STOPPING = (DriftKind.DISPERSION, DriftKind.TOPOLOGY)
"""Kinds that stop a rollout whatever their size: parts lost or ranks apart on many nodes at once are no plan."""

DEFAULTS = DriftSettings()


def examine(fleet: Fleet, settings: DriftSettings = DEFAULTS) -> DriftReport:
    """Everything that changed. Never raises on what a store may hold; what cannot be compared is in `unknown`."""
    nodes = [compared(node, settings.since) for node in fleet.nodes]
    hashes = {one.node.node_hash: one for one in nodes if one.node.node_hash is not None}
    names = Names(
        {**fleet.peers, **{key: one.node.name for key, one in hashes.items()}},
        {one.node.name: attributes_of(one.node.now) for one in nodes if one.node.now is not None},
    )
    histories = _renamed(fleet)
    findings = list(changed_findings(nodes, settings))
    profiles: list[Runs] = []
    steps: list[ClassStep] = []
    notes: list[str] = []
    for profile in sorted({one.profile for one in histories}):
        of_profile = [one for one in histories if one.profile == profile]
        runs = runs_of(of_profile)
        profiles.append(runs)
        across = crossings(runs, settings)
        findings += _of_profile(of_profile, runs, across, hashes, names, settings)
        notes += over_notes(across, hashes, names, settings, profile)
        steps += [step for one in of_profile for step in class_changes(one, settings)]
        if not runs.spread and len(runs.time):
            notes.append(f"profile {profile}: no run says how far its ranks lie apart (the built-in benchmark does)")
        if not any(any(one.choices) for one in of_profile) and len(runs.time):
            notes.append(f"profile {profile}: no run says what NCCL chose (its log was not read)")
    findings = list(with_points(findings, steps, settings))
    if fleet.peers:
        findings = [one for one in findings if _concerns(one, nodes)]
    moved = [one for one in nodes if one.moved or any(not change.applies for change in one.changes)]
    return DriftReport(
        nodes=len(fleet.nodes),
        classes=tuple(sorted({one.class_hash for one in nodes if one.class_hash is not None})),
        findings=tuple(sorted(findings, key=_order)),
        baseline_applies=not moved,
        regenerate=regenerate(nodes, histories),
        why=why_not(nodes),
        unknown=(*(text for one in nodes for text in one.unknown), *unmeasured(fleet, profiles, settings.since)),
        stop_rollout=any(stops(one) for one in findings),
        notes=(*(text for one in nodes for text in one.notes), *notes),
    )


def _renamed(fleet: Fleet) -> tuple[ClassHistory, ...]:
    """With results from before a GPU or NIC was replaced under the node hash of now: it is still that node."""
    names = {
        earlier: node.node_hash
        for node in fleet.nodes
        for earlier in node.earlier_hashes
        if node.node_hash is not None and same_machine(node)
    }
    if not names:
        return fleet.histories
    return tuple(replace(one, nodes=tuple(names.get(node, node) for node in one.nodes)) for one in fleet.histories)


def _of_profile(
    histories: Sequence[ClassHistory],
    runs: Runs,
    across: Sequence[Crossing],
    hashes: Mapping[str, NodeChanges],
    names: Names,
    settings: DriftSettings,
) -> list[DriftFinding]:
    profile = runs.profile
    measured = {
        runs.classes[index]: len(set(runs.node[runs.class_ == index].tolist())) for index in range(len(histories))
    }
    mine = Names(
        names.names,
        {name: names.everybody[name] for name in map(names.of, _measured_now(runs, hashes)) if name in names.everybody},
    )
    left = losses(histories, runs, names.names, settings)
    within = [one for one in left if one.classes[0] == one.classes[1]]
    return [
        *crossing_findings(across, hashes, mine, settings, profile),
        *lone_losses(left, across, hashes, mine, profile),
        *node_losses(within, measured, mine, settings, profile),
        *spread_findings(rises(runs, names.names, settings), measured, mine, settings),
        *choice_findings(histories, hashes, measured, mine, settings, profile),
    ]


def _concerns(finding: DriftFinding, nodes: Sequence[NodeChanges]) -> bool:
    """Whether it is of a node that is asked about, or of the whole of its class."""
    if finding.nodes:
        return any(one.node.name in finding.nodes for one in nodes)
    return any(one.class_hash == finding.class_hash for one in nodes)


def _measured_now(runs: Runs, nodes: Mapping[str, NodeChanges]) -> list[str]:
    """Nodes whose newest run is of the class that they are in: the others' results say nothing of what they are."""
    newest = {runs.nodes[node]: runs.classes[class_] for node, class_ in zip(runs.node, runs.class_, strict=True)}
    return [node for node, class_hash in newest.items() if node in nodes and nodes[node].class_hash == class_hash]


def stops(finding: DriftFinding) -> bool:
    """Whether it speaks against going on with what is being rolled out: a loss on many nodes at once.

    Another version on many nodes alone does not: that is what a rollout is.
    """
    if finding.scope is not DriftScope.SYSTEMATIC:
        return False
    if finding.size is not None:
        return finding.size < 0
    return finding.kind in STOPPING


def _order(finding: DriftFinding) -> tuple[object, ...]:
    return (
        not stops(finding),
        finding.scope is not DriftScope.SYSTEMATIC,
        finding.kind not in LOSSES,
        finding.size if finding.size is not None else 0.0,
        finding.kind.value,
        finding.nodes,
        finding.statement,
    )
