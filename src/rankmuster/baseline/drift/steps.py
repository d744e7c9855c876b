"""Nodes whose results left their own level: in one class a drift of the node, at a change of class the change's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from rankmuster.baseline.drift.chance import at_least
from rankmuster.baseline.drift.lanes import Lane, Runs, relative
from rankmuster.baseline.drift.lineage import Lineages
from rankmuster.baseline.drift.noise import robust_sd
from rankmuster.baseline.drift.settings import DAY, LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE, DriftSettings
from rankmuster.baseline.node_series import RULES as NODE_RULES
from rankmuster.baseline.node_series import NodeStep, node_series
from rankmuster.baseline.steps import StepRules
from rankmuster.baseline.student import upper_tail
from rankmuster.baseline.thresholds import OUTLIER_SPREADS, TAIL_DOF, JudgeSettings
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints
from rankmuster.model.judgement import Regime

WEEK = 7 * DAY

CREEP_RUNS = 10
"""Runs from which on a steady slope can be told from a step."""


RULES: Mapping[Regime, StepRules] = {
    regime: replace(rules, least=rules.least / 2) for regime, rules in NODE_RULES.items()
}
"""As for a node alone, with steps half as large: a step fitted to a slope is half of what the slope comes to. What
counts is decided here, by what the change has come to."""

WORTH_A_LOOK = 4.0
"""Standard errors of the difference of means from which on the exact search is made; that needs six or more."""

PRIOR_SHARE = 0.7
"""Of the spread that the exact search assumes where a few runs agree better than that by chance."""

NEAR_RUNS = 3
"""Runs by which the place of a step is uncertain: one so near a change of class is at it."""


class Shape(str, Enum):
    STEP = "step"
    CREEP = "creep"  # a little less every day


@dataclass(frozen=True, slots=True)
class Loss:
    """One lane of one node that left its level. `change`: relative, below 0 is slower. `since`: unix seconds of the
    first run that shows it. `classes`: of the run before it and of that run; they differ at a change of class.

    `per_week`: relative change in a week where the shape is a creep, else None.
    """

    node: str
    lane: Lane
    change: float
    since: float
    classes: tuple[str, str]
    shape: Shape
    per_week: float | None
    runs: tuple[int, int]
    p_value: float


def losses(
    histories: Sequence[ClassHistory], runs: Runs, asked: Collection[str], settings: DriftSettings
) -> tuple[Loss, ...]:
    """Of the nodes `asked` (node hashes), by node and lane. `runs`: of the same histories, all of one profile."""
    lineages = Lineages(histories)
    measured = [node for node in lineages.nodes() if node in asked]
    share = settings.false_alarms_per_look / max(1, len(measured) * len(runs.level))
    found = []
    for node in measured:
        rows = runs.of(node)
        lanes = {lane for lane, level in runs.level.items() if may_step(level[rows], lane.regime)}
        stepped = set()
        if lanes:
            for step in node_series(lineages.of(node, lanes), node, false_alarm=share * len(lanes), rules=RULES):
                loss = _loss(runs, rows, step, share, settings) if step.significant else None
                if loss is not None:
                    found.append(loss)
                    stepped.add(loss.lane)
        found += [
            loss for lane in runs.level if lane not in stepped for loss in _creeping(runs, rows, lane, share, settings)
        ]
    return tuple(one for one in found if settings.since is None or one.since >= settings.since)


def may_step(level: Floats, regime: Regime) -> bool:
    """Whether the exact search is worth its time: it takes 7 ms a lane, this a hundredth of that."""
    values = level[np.isfinite(level)]
    count = len(values)
    splits = np.arange(LEAST_RUNS_BEFORE, count - LEAST_RUNS_AFTER + 1)
    if not len(splits):
        return False
    sums = np.cumsum(values)
    before = sums[splits - 1] / splits
    after = (sums[-1] - sums[splits - 1]) / (count - splits)
    noise = max(RULES[regime].unit_sd * PRIOR_SHARE, robust_sd(np.diff(values)) / math.sqrt(2))
    z = np.abs(after - before) / (noise * np.sqrt(1 / splits + 1 / (count - splits)))
    return bool(np.any((z >= WORTH_A_LOOK) & (np.abs(after - before) >= RULES[regime].least / 2)))


def _loss(runs: Runs, rows: Ints, step: NodeStep, share: float, settings: DriftSettings) -> Loss | None:
    lane = Lane(step.operation, step.graph, step.in_place, step.regime)
    rows = rows[np.isfinite(runs.level[lane][rows])]
    time, level = runs.time[rows], runs.level[lane][rows]
    first = _at_change(runs.class_[rows], min(int(np.searchsorted(time, step.since)), len(rows) - 1))
    if first < LEAST_RUNS_BEFORE or len(rows) - first < LEAST_RUNS_AFTER:
        return None
    classes = (runs.classes[runs.class_[rows[first - 1]]], runs.classes[runs.class_[rows[first]]])
    # against all that was before: a node that came back from a bad week has not drifted
    moved, slope = float(np.median(level[first:]) - np.median(level[:first])), None
    change = relative(moved)
    if change * step.change <= 0 or _showing(level[first:] - np.median(level[:first]), moved) < LEAST_RUNS_AFTER:
        return None
    if classes[0] == classes[1]:
        slope = _creep(time, level, first)
        if slope is not None:
            change = relative(math.log1p(slope) * (time[-1] - time[0]) / WEEK)
    if abs(change) < settings.least_change[lane.regime] or _a_mode(runs, lane, rows, first, share):
        return None
    return Loss(
        node=step.node,
        lane=lane,
        change=change,
        since=float(time[first]),
        classes=classes,
        shape=Shape.STEP if slope is None else Shape.CREEP,
        per_week=slope,
        runs=(first, len(rows) - first),
        p_value=step.p_value,
    )


def _showing(away: Floats, moved: float) -> int:
    """Runs that each show half of the step or more: the median of two is the mean of a bad run and a good one."""
    return int((away / moved >= 0.5).sum()) if moved else 0


def _a_mode(runs: Runs, lane: Lane, rows: Ints, first: int, share: float) -> bool:
    """Whether the runs from `first` on may be of a mode that healthy nodes of the class have now and then.

    Where results are two-moded, some runs of one mode in a row are no step, however clear it looks: they are held
    against how often all nodes have such runs.
    """
    if not JudgeSettings().regimes[lane.regime].modes:
        return False
    level = runs.level[lane]
    old, new = float(np.median(level[rows[:first]])), float(np.median(level[rows[first:]]))
    border = (old + new) / 2
    own = np.zeros(len(level), dtype=np.bool_)
    own[rows[first:]] = True
    others = level[np.isfinite(level) & ~own]
    beyond = (others < border) if new < old else (others > border)
    usual = (float(beyond.sum()) + 1) / (len(others) + 2)
    after = level[rows[first:]]
    shown = int(((after < border) if new < old else (after > border)).sum())
    return at_least(shown, len(after), usual) * len(rows) > share


def _at_change(classes: Ints, first: int) -> int:
    """The run of the nearest change of class within `NEAR_RUNS`, else `first`."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    near = edges[np.abs(edges - first) <= NEAR_RUNS]
    return first if not len(near) else int(near[np.argmin(np.abs(near - first))])


def _creeping(runs: Runs, rows: Ints, lane: Lane, share: float, settings: DriftSettings) -> list[Loss]:
    """A slope over all runs in the newest class: steadier than any step in it, and so seen sooner.

    Least squares, since what creeps has no sudden part; runs far off the line are drawn in to it. Student's t with the
    degrees of freedom that all statistics here count to at most.
    """
    rows = rows[(runs.class_[rows] == runs.class_[rows[-1]]) & np.isfinite(runs.level[lane][rows])]
    if settings.since is not None:
        rows = rows[runs.time[rows] >= settings.since]
    if len(rows) < CREEP_RUNS or runs.time[rows[-1]] <= runs.time[rows[0]]:
        return []
    x = (runs.time[rows] - runs.time[rows[0]]) / WEEK
    y = runs.level[lane][rows]
    for _ in range(2):
        slope, start = np.polyfit(x, y, 1)
        rest = y - start - slope * x
        noise = max(robust_sd(rest), RULES[lane.regime].unit_sd)
        y = np.clip(y, start + slope * x - OUTLIER_SPREADS * noise, start + slope * x + OUTLIER_SPREADS * noise)
    spread = max(float(np.std(rest, ddof=2)), RULES[lane.regime].unit_sd * PRIOR_SHARE)
    error = spread / math.sqrt(float(np.sum((x - x.mean()) ** 2)))
    change = relative(float(slope) * float(x[-1]))
    p_value = 2 * upper_tail(abs(float(slope)) / error, min(float(len(rows) - 2), TAIL_DOF))
    if p_value > share or abs(change) < settings.least_change[lane.regime]:
        return []
    name, class_hash = runs.nodes[runs.node[rows[0]]], runs.classes[runs.class_[rows[0]]]
    middle = len(rows) // 2
    return [
        Loss(
            node=name,
            lane=lane,
            change=change,
            since=float(runs.time[rows[0]]),
            classes=(class_hash, class_hash),
            shape=Shape.CREEP,
            per_week=relative(float(slope)),
            runs=(middle, len(rows) - middle),
            p_value=p_value,
        )
    ]


def _creep(time: Floats, level: Floats, first: int) -> float | None:
    """Relative change in a week where a straight line explains the whole better than a step at run `first`."""
    known = np.isfinite(level)
    if known.sum() < CREEP_RUNS or time[-1] <= time[0]:
        return None
    x, y = time[known], level[known]
    after = np.arange(len(time))[known] >= first
    if not after.any() or after.all():
        return None
    step = np.where(after, np.median(y[after]), np.median(y[~after]))
    slope, start = np.polyfit((x - x[0]) / WEEK, y, 1)
    line = start + slope * (x - x[0]) / WEEK
    # absolute residuals: one bad run must not decide between the two
    if np.sum(np.abs(y - line)) >= np.sum(np.abs(y - step)):
        return None
    return relative(float(slope))
