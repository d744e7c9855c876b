"""Losses that come little by little: a slope over a node's results, where no day of them stands out."""

from __future__ import annotations

import math

import numpy as np

from rankmuster.baseline.drift.lanes import Lane, Runs, relative
from rankmuster.baseline.drift.loss import WEEK, Loss, Shape
from rankmuster.baseline.drift.noise import robust_sd
from rankmuster.baseline.drift.returned import is_back, was_at
from rankmuster.baseline.drift.settings import LEAST_RUNS_BEFORE, DriftSettings
from rankmuster.baseline.node_series import RULES
from rankmuster.baseline.student import upper_tail
from rankmuster.baseline.thresholds import OUTLIER_SPREADS, TAIL_DOF
from rankmuster.model.hardware import Floats
from rankmuster.model.history import Ints

CREEP_RUNS = 10
"""Runs from which on a steady slope can be told from a step."""

EARLY = 3
"""Of how many parts of a slope the first is early: what creeps has never been there where it has come to."""

PRIOR_SHARE = 0.7
"""Of the spread of runs that is assumed, where a few of them agree better than that by chance."""


def creeping(runs: Runs, rows: Ints, lane: Lane, share: float, settings: DriftSettings) -> list[Loss]:
    """A slope over all runs in the newest class: steadier than any step in it, and so seen sooner.

    Least squares, since what creeps has no sudden part; runs far off the line are drawn in to it. Student's t with the
    degrees of freedom that all statistics here count to at most.
    """
    rows = every = rows[(runs.class_[rows] == runs.class_[rows[-1]]) & np.isfinite(runs.level[lane][rows])]
    if settings.since is not None:
        rows = rows[runs.time[rows] >= settings.since]
    if len(rows) < CREEP_RUNS or runs.time[rows[-1]] <= runs.time[rows[0]]:
        return []
    x = (runs.time[rows] - runs.time[rows[0]]) / WEEK
    level = y = runs.level[lane][rows]
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
    total = float(slope) * float(x[-1])
    early = runs.level[lane][every[: len(every) - len(rows) + len(rows) // EARLY]]
    usual = float(np.median(level[: len(rows) // EARLY]))
    newest = float(np.median(level[-LEAST_RUNS_BEFORE:]))
    near = min(math.log1p(settings.least_change[lane.regime]), total / EARLY)
    if is_back(level, usual, total) or (total > 0 and was_at(early, newest - near)):
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


def slope_rather_than_step(time: Floats, level: Floats, first: int) -> float | None:
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
