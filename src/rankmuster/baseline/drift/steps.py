"""Nodes whose results left their own level: in one class a drift of the node, at a change of class the change's."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rankmuster.baseline.drift.lanes import Lane, Runs
from rankmuster.baseline.drift.lineage import Lineages
from rankmuster.baseline.drift.settings import DAY, LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE, DriftSettings
from rankmuster.baseline.node_series import NodeStep, node_series
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints
from rankmuster.model.judgement import Regime

WEEK = 7 * DAY

CREEP_RUNS = 10
"""Runs from which on a steady slope can be told from a step."""


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
    share = settings.false_alarms_per_look / max(1, len(measured))
    found = []
    for node in measured:
        for step in node_series(lineages.of(node), node, false_alarm=share):
            if step.significant and _matters(step, settings):
                found.append(_loss(runs, step))
    return tuple(one for one in found if settings.since is None or one.since >= settings.since)


def _matters(step: NodeStep, settings: DriftSettings) -> bool:
    least = settings.least_change_latency if step.regime is Regime.LATENCY else settings.least_change
    return abs(step.change) >= least and step.before_runs >= LEAST_RUNS_BEFORE and step.after_runs >= LEAST_RUNS_AFTER


def _loss(runs: Runs, step: NodeStep) -> Loss:
    lane = Lane(step.operation, step.regime, step.graph, step.in_place)
    rows = runs.of(step.node)
    time = runs.time[rows]
    first = _at_change(runs.class_[rows], min(int(np.searchsorted(time, step.since)), len(rows) - 1))
    classes = (
        runs.classes[runs.class_[rows[max(0, first - 1)]]],
        runs.classes[runs.class_[rows[first]]],
    )
    slope = _creep(time, runs.level[lane][rows], first) if lane in runs.level and classes[0] == classes[1] else None
    return Loss(
        node=step.node,
        lane=lane,
        change=step.change,
        since=float(time[first]),
        classes=classes,
        shape=Shape.STEP if slope is None else Shape.CREEP,
        per_week=slope,
        runs=(step.before_runs, step.after_runs),
        p_value=step.p_value,
    )


def _at_change(classes: Ints, first: int) -> int:
    """The run of the nearest change of class within `NEAR_RUNS`, else `first`."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    near = edges[np.abs(edges - first) <= NEAR_RUNS]
    return first if not len(near) else int(near[np.argmin(np.abs(near - first))])


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
    return math.expm1(float(slope))
