"""Steps of a whole class: found here, listed, and marked in the store only where somebody asks for that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rankmuster.baseline.changepoints import find_changes
from rankmuster.baseline.drift.loss_findings import FASTER, STOP, TEST
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.words import day, many, percent, short
from rankmuster.baseline.regimes import regime_of
from rankmuster.model.drift import DriftFinding, DriftKind, DriftScope
from rankmuster.model.history import ChangePoint, ChangeState, ClassHistory
from rankmuster.model.judgement import Regime


def class_changes(history: ClassHistory, settings: DriftSettings) -> tuple[ChangePoint, ...]:
    """Steps of the class since `settings.since` that nobody has judged yet; those marked already come with their id."""
    judged = [point for point in history.change_points if point.state is not ChangeState.OPEN]
    marked = [point for point in history.change_points if point.state is ChangeState.OPEN]
    found = [point for point in find_changes(history) if not any(_same(point, one, settings) for one in judged)]
    points = [next((one for one in marked if _same(point, one, settings)), point) for point in found]
    return tuple(point for point in points if settings.since is None or point.at >= settings.since)


def _same(one: ChangePoint, other: ChangePoint, settings: DriftSettings) -> bool:
    return one.cell in (None, other.cell) or other.cell is None if _near(one, other, settings) else False


def _near(one: ChangePoint, other: ChangePoint, settings: DriftSettings) -> bool:
    return abs(one.at - other.at) <= settings.together_s


def with_points(
    findings: Sequence[DriftFinding], points: Sequence[ChangePoint], settings: DriftSettings
) -> tuple[DriftFinding, ...]:
    """Findings of many nodes with the step of their class that they are; steps without one as findings of their own."""
    found = list(findings)
    for point in points:
        for index, finding in enumerate(found):
            if (
                finding.point is None
                and finding.scope is scope_of(point)
                and finding.class_hash == point.class_hash
                and finding.kind in (DriftKind.BANDWIDTH, DriftKind.LATENCY)
                and (finding.size or 0.0) * (change_of(point) or 0.0) > 0
                and finding.since is not None
                and abs(finding.since - point.at) <= settings.together_s
            ):
                found[index] = replace(finding, point=point)
                break
        else:
            found.append(_finding(point))
    return tuple(found)


def scope_of(point: ChangePoint) -> DriftScope:
    """A class of one node, or one that a single node has results of, has not changed as a class."""
    return DriftScope.SYSTEMATIC if point.nodes > 1 else DriftScope.NODE


def change_of(point: ChangePoint) -> float | None:
    """Relative change of the level; None where one side is unknown."""
    if point.before is None or point.after is None or not point.before > 0:
        return None
    found = point.after / point.before - 1.0
    return found if math.isfinite(found) else None


def _finding(point: ChangePoint) -> DriftFinding:
    change = change_of(point)
    level = "at another level" if change is None else percent(change)
    regime = None if point.cell is None else regime_of(point.cell.size_bytes)
    what = "all of it" if point.cell is None else f"{point.cell.operation.value} of {point.cell.size_bytes:,} bytes"
    return DriftFinding(
        kind=DriftKind.LATENCY if regime is Regime.LATENCY else DriftKind.BANDWIDTH,
        scope=scope_of(point),
        class_hash=point.class_hash,
        nodes=(),
        statement=(
            f"class {short(point.class_hash)} as a whole is {level} "
            f"since {day(point.at)}, seen on {many(point.nodes)}: {what}" + f", profile {point.profile}"
        ),
        effect=(FASTER if (change or 0.0) >= 0 else STOP if scope_of(point) is DriftScope.SYSTEMATIC else TEST)
        + "; the baseline stays what it was until somebody accepts the new level (`--mark`, then `rankmuster history "
        "changes accept`)",
        size=change,
        since=point.at,
        point=point,
    )
