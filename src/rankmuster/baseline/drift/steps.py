"""Nodes whose results left their own level: in one class a drift of the node, at a change of class the change's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rankmuster.baseline.drift.chance import at_least
from rankmuster.baseline.drift.creep import PRIOR_SHARE, creeping, slope_rather_than_step
from rankmuster.baseline.drift.lanes import Lane, Runs, relative
from rankmuster.baseline.drift.lineage import Lineages
from rankmuster.baseline.drift.loss import WEEK, Loss, Shape
from rankmuster.baseline.drift.noise import robust_sd
from rankmuster.baseline.drift.returned import NEAR_EDGE, is_back, rose_home
from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE, DriftSettings
from rankmuster.baseline.node_series import RULES as NODE_RULES
from rankmuster.baseline.node_series import NodeStep, node_series
from rankmuster.baseline.steps import StepRules
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints
from rankmuster.model.judgement import Regime

RULES: Mapping[Regime, StepRules] = {
    regime: replace(rules, least=rules.least / 2) for regime, rules in NODE_RULES.items()
}
"""As for a node alone, with steps half as large: a step fitted to a slope is half of what the slope comes to. What
counts is decided here, by what the change has come to."""

WORTH_A_LOOK = 4.0
"""Standard errors of the difference of means from which on the exact search is made; that needs six or more."""


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
            loss for lane in runs.level if lane not in stepped for loss in creeping(runs, rows, lane, share, settings)
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
    usual = float(np.median(level[:first]))
    moved, slope = float(np.median(level[first:])) - usual, None
    change = relative(moved)
    if change * step.change <= 0 or _showing(level[first:] - usual, moved) < LEAST_RUNS_AFTER:
        return None
    if is_back(level, usual, moved) or (moved > 0 and rose_home(level, first, settings.least_change[lane.regime])):
        return None
    if classes[0] == classes[1]:
        slope = slope_rather_than_step(time, level, first)
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
    """The run of the nearest change of class within `NEAR_EDGE`, else `first`."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    near = edges[np.abs(edges - first) <= NEAR_EDGE]
    return first if not len(near) else int(near[np.argmin(np.abs(near - first))])
