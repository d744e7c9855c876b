"""NCCL's choices as findings: of one node against its class, and of a class against the one its nodes came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.baseline.drift.changed import NodeChanges
from rankmuster.baseline.drift.choices import Otherwise, differing, otherwise, usual_choices
from rankmuster.baseline.drift.crossing_findings import common_changes
from rankmuster.baseline.drift.loss_findings import Names
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.systematic import together
from rankmuster.baseline.drift.words import changed, many, some
from rankmuster.model.drift import DriftFinding, DriftKind, DriftScope
from rankmuster.model.history import ClassHistory

SAME_FINGERPRINT = (
    "the fingerprints are the same, so NCCL saw something that none has: compare its graph dumps (NCCL_GRAPH_DUMP_FILE)"
)


def choice_findings(
    histories: Sequence[ClassHistory],
    nodes: Mapping[str, NodeChanges],
    measured: Mapping[str, int],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> tuple[DriftFinding, ...]:
    """`nodes`: by node hash, those that are asked about."""
    found: list[DriftFinding] = []
    for history in histories:
        groups: dict[tuple[str, int, str, str], list[Otherwise]] = {}
        for one in otherwise(history, names.names):
            if settings.since is None or one.since >= settings.since:
                groups.setdefault((one.operation, one.size_bytes, one.usual, one.now), []).append(one)
        found += [
            _within(group, measured.get(history.class_hash, len(group)), names, settings, profile)
            for group in groups.values()
        ]
    return (*found, *_across(histories, nodes, names, settings, profile))


def _within(group: Sequence[Otherwise], of: int, names: Names, settings: DriftSettings, profile: str) -> DriftFinding:
    starts = {names.of(one.node): one.since for one in group}
    first = group[0]
    members = tuple(sorted(starts))
    where = "" if len(members) == 1 else f" on {many(len(members))} of {of:,}: {some(members)}"
    return DriftFinding(
        kind=DriftKind.CHOICE,
        scope=DriftScope.NODE if together(starts, of, settings) is None else DriftScope.SYSTEMATIC,
        class_hash=first.class_hash,
        nodes=members,
        statement=f"NCCL runs {first.operation} of {first.size_bytes:,} bytes by {first.now}, its class by "
        f"{first.usual}{where}, profile {profile}",
        effect=SAME_FINGERPRINT,
        since=min(starts.values()),
    )


def _across(
    histories: Sequence[ClassHistory],
    nodes: Mapping[str, NodeChanges],
    names: Names,
    settings: DriftSettings,
    profile: str,
) -> list[DriftFinding]:
    usual = {history.class_hash: usual_choices(history) for history in histories}
    moves: dict[tuple[str, str], list[str]] = {}
    for key, one in nodes.items():
        if one.moved and one.before_class in usual and one.class_hash in usual:
            moves.setdefault((str(one.before_class), str(one.class_hash)), []).append(key)
    found = []
    for (before, after), members in moves.items():
        differences = differing(usual[before], usual[after])
        if not differences:
            continue
        (operation, size), old, new = differences[0]
        changes = common_changes(before, after, nodes)
        what = ", ".join(changed(change) for change in changes) or "the change of class"
        shown = tuple(sorted(names.of(member) for member in members))
        more = f" (and {many(len(differences) - 1, 'more size')})" if len(differences) > 1 else ""
        found.append(
            DriftFinding(
                kind=DriftKind.CHOICE,
                scope=DriftScope.SYSTEMATIC if len(shown) >= settings.least_nodes else DriftScope.NODE,
                class_hash=after,
                nodes=shown,
                statement=f"with {what} NCCL runs {operation} of {size:,} bytes by {new} instead of {old}{more} on "
                f"{many(len(shown))}: {some(shown)}, profile {profile}",
                effect="results before and after are of two different things; the old baseline does not apply",
                since=None,
                change=changes[0] if changes else None,
            )
        )
    return found
