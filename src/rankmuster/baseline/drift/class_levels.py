"""Steps of a whole class: found here, listed, and marked in the store only where somebody asks for that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankmuster.baseline.changepoints import find_changes
from rankmuster.baseline.drift.loss_findings import FASTER, STOP, TEST
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.words import day, many, percent, short
from rankmuster.baseline.regimes import regime_of
from rankmuster.model.drift import DriftFinding, DriftKind, DriftScope
from rankmuster.model.history import ChangePoint, ChangeState, ClassHistory
from rankmuster.model.judgement import Regime

AT_HOME = 0.5
"""Part of a step within which the class is at its level again."""


@dataclass(frozen=True, slots=True)
class ClassStep:
    """A step of a class that nobody has judged. `over`: unix seconds since which the class is at its level from before
    again, None where it is not; what was measured in between is in the baseline all the same."""

    point: ChangePoint
    over: float | None = None


def class_changes(history: ClassHistory, settings: DriftSettings) -> tuple[ClassStep, ...]:
    """Steps of the class since `settings.since` that nobody has judged yet; those marked already come with their id.

    A step back to the level of an earlier one is the end of that, and no step of its own.
    """
    judged = [point for point in history.change_points if point.state is not ChangeState.OPEN]
    marked = [point for point in history.change_points if point.state is ChangeState.OPEN]
    steps: list[ClassStep] = []
    ends: list[ChangePoint] = []
    found = find_changes(history)
    for place, point in enumerate(found):
        if point in ends or any(_same(point, one, settings) or _ends(point, one, settings) for one in judged):
            continue
        back = _way_back(point, found[place + 1 :])
        ends += back
        known = next((one for one in marked if _same(point, one, settings)), point)
        over = back[-1].at if back else None
        if settings.since is None or max(point.at, over or point.at) >= settings.since:
            steps.append(ClassStep(known, over))
    return tuple(steps)


def _way_back(point: ChangePoint, later: Sequence[ChangePoint]) -> list[ChangePoint]:
    """The later steps that lead to the level from before `point`, where the class stays at it; else none."""
    moved = _log(point)
    if moved is None:
        return []
    steps = [one for one in later if one.cell in (None, point.cell)]
    away, last = moved, None
    for place, one in enumerate(steps):
        away += _log(one) or 0.0
        if abs(away) >= AT_HOME * abs(moved):
            last = None
        elif last is None:
            last = place
    return [] if last is None else steps[: last + 1]


def _log(point: ChangePoint) -> float | None:
    change = change_of(point)
    return None if change is None or change <= -1 else math.log1p(change)


def _ends(point: ChangePoint, judged: ChangePoint, settings: DriftSettings) -> bool:
    """Whether it is the step back at the end of a week that somebody has dismissed."""
    return judged.until is not None and _same(point, replace(judged, at=judged.until), settings)


def _same(one: ChangePoint, other: ChangePoint, settings: DriftSettings) -> bool:
    return one.cell in (None, other.cell) or other.cell is None if _near(one, other, settings) else False


def _near(one: ChangePoint, other: ChangePoint, settings: DriftSettings) -> bool:
    return abs(one.at - other.at) <= settings.together_s


def with_points(
    findings: Sequence[DriftFinding], steps: Sequence[ClassStep], settings: DriftSettings
) -> tuple[DriftFinding, ...]:
    """Findings of many nodes with the step of their class that they are; steps without one as findings of their own."""
    found = list(findings)
    for step in steps:
        point = step.point
        if step.over is not None:
            found.append(_over(point, step.over))
            continue
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


def _kind(point: ChangePoint) -> DriftKind:
    small = point.cell is not None and regime_of(point.cell.size_bytes) is Regime.LATENCY
    return DriftKind.LATENCY if small else DriftKind.BANDWIDTH


def _what(point: ChangePoint) -> str:
    return "all of it" if point.cell is None else f"{point.cell.operation.value} of {point.cell.size_bytes:,} bytes"


def _over(point: ChangePoint, over: float) -> DriftFinding:
    """A spell that is over: nothing is to be stopped, and what was measured in it is no baseline."""
    number = "ID" if point.id is None else point.id
    return _of_class(
        point,
        statement=(
            f"class {short(point.class_hash)} as a whole was {percent(change_of(point) or 0.0)} from {day(point.at)} "
            f"to {day(over)} and is at its level again, seen on {many(point.nodes)}: {_what(point)}, "
            f"profile {point.profile}"
        ),
        effect=(
            "over, and nothing to stop; what was measured in between is in the baseline until somebody keeps it out "
            f"({'' if point.id is not None else '`--mark`, then '}`rankmuster history changes dismiss {number} "
            f"--until {math.floor(over)}`)"
        ),
    )


def _finding(point: ChangePoint) -> DriftFinding:
    change = change_of(point)
    level = "at another level" if change is None else percent(change)
    return _of_class(
        point,
        statement=(
            f"class {short(point.class_hash)} as a whole is {level} "
            f"since {day(point.at)}, seen on {many(point.nodes)}: {_what(point)}, profile {point.profile}"
        ),
        effect=(FASTER if (change or 0.0) >= 0 else STOP if scope_of(point) is DriftScope.SYSTEMATIC else TEST)
        + "; the baseline stays what it was until somebody accepts the new level (`--mark`, then `rankmuster history "
        "changes accept`)",
        size=change,
    )


def _of_class(point: ChangePoint, statement: str, effect: str, size: float | None = None) -> DriftFinding:
    return DriftFinding(
        kind=_kind(point),
        scope=scope_of(point),
        class_hash=point.class_hash,
        nodes=(),
        statement=statement,
        effect=effect,
        size=size,
        since=point.at,
        point=point,
    )
