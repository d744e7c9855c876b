"""Steps in the level of a class: a rollout that its fingerprint does not show, or a bad week of one switch.

A class's series is the median over its nodes per stretch of time, so that one node's fault does not move it. A step of
that series is a change of the class only where its nodes bear it out: many of those that were measured around it have
runs on both sides and show it themselves. Which nodes were measured is no level of the class: one slow node alone on
one side of a day (its clock is wrong, the others are new) would be a step, and what is marked moves the baseline.
Found points are OPEN: the baseline stays what it was until a person accepts the new level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import expm1

import numpy as np

from rankmuster.baseline.distribution import medians
from rankmuster.baseline.levels import Levels, levels_of
from rankmuster.baseline.regimes import Group
from rankmuster.baseline.steps import Step, StepRules, find_steps
from rankmuster.model.benchmark import Cell
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ChangePoint, ChangeState, ClassHistory, Ints
from rankmuster.model.judgement import Regime

FALSE_ALARM = 0.01
"""Steady classes in which a change is found, per look at all groups together. Simulated: `docs/measured.md`."""

STRETCHES_S = (86400.0, 21600.0, 3600.0)
"""Seconds of one unit of the series, the longest that gives `STRETCHES_MIN` units; else each run is one. A day, since
what all nodes share (a switch, the room's heat) changes by the day."""

STRETCHES_MIN = 8
"""Units below which the series is too short for a level on both sides of a step and the noise around them."""

NODES_PER_STRETCH = 8
"""Nodes per stretch below which their median may be of either healthy mode: a step at small sizes must then be wider
than modes are apart (`FEW_NODES_LEAST`)."""

FEW_NODES_LEAST = 0.40
"""As a logarithm. Measured: modes stand 0.27 to 0.36 apart."""

BEARERS = 3
"""Nodes with runs on both sides without which nobody says whether the class has changed, or all where it has fewer."""

BEARING_SHARE = 1 / 4
"""Of the nodes measured around a step, more than this share has to have runs on both sides of it. Where a node is
measured every two weeks and the new level lasts for days alone, a third has (a rollout node by node, a bad week)."""

CLASS_RULES: Mapping[Regime, StepRules] = {
    Regime.PLATEAU: StepRules(before=4, after=3, least=0.015, unit_sd=0.003),
    Regime.TRANSITION: StepRules(before=4, after=3, least=0.08, unit_sd=0.03),
    Regime.LATENCY: StepRules(before=4, after=3, least=0.12, unit_sd=0.04),
}
"""Three stretches after, so that one bad day is none. The least step is half of what refuses a node: a class that
moves by more than that makes healthy nodes look bad."""


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """What can be set of the search."""

    false_alarm: float = FALSE_ALARM
    rules: Mapping[Regime, StepRules] = field(default_factory=lambda: dict(CLASS_RULES))


DEFAULTS = ChangeSettings()


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    group: Group
    cell: Cell
    at: float
    change: float
    nodes: int
    note: str
    before: float
    after: float


def find_changes(history: ClassHistory, *, settings: ChangeSettings = DEFAULTS) -> tuple[ChangePoint, ...]:
    """OPEN points over all runs of `history`, by time. Those that it has already are found again.

    One point per operation, placement and regime, with its largest size as the cell; where all plateau groups of the
    profile step together it is one point for the whole profile (`cell` None, levels of the first one's largest size).
    """
    series = levels_of(history)
    found = [one for levels in series for one in _of_group(history, levels, settings, len(series))]
    plateau = {levels.group for levels in series if levels.group.regime is Regime.PLATEAU}
    points = [_point(history, all_of_it, cell) for all_of_it, cell in _together(found, plateau)]
    return tuple(sorted(points, key=lambda point: (point.at, str(point.cell))))


def _of_group(history: ClassHistory, levels: Levels, settings: ChangeSettings, groups: int) -> list[_Found]:
    alpha = settings.false_alarm / groups
    names = np.array([history.nodes[run] for run in levels.run])
    node: Ints = np.unique(names, return_inverse=True)[1]
    time = history.started_at[levels.run]
    unit = _units(time)
    count = int(unit.max()) + 1
    # One value per node and stretch, so that a node that ran often does not speak for the class.
    pairs, of = np.unique(unit * (node.max() + 1) + node, return_inverse=True)
    per_node = medians(levels.level, of, len(pairs))
    series = medians(per_node, pairs // (node.max() + 1), count)
    rules = settings.rules[levels.group.regime]
    if levels.group.regime is not Regime.PLATEAU and len(pairs) < NODES_PER_STRETCH * count:
        rules = replace(rules, least=max(rules.least, FEW_NODES_LEAST))
    steps = find_steps(series, rules, alpha)
    # Runs are in order of time: a segment is a range of them.
    bounds = [0, *(_first_run(levels.level, unit, step) for step in steps), len(unit)]
    position = np.arange(len(unit))
    found = []
    for step, (start, at, end) in zip(steps, zip(bounds, bounds[1:], bounds[2:], strict=False), strict=False):
        before, after = (position >= start) & (position < at), (position >= at) & (position < end)
        around = (unit >= step.at - rules.before) & (unit < step.at + rules.after)
        borne = _borne(levels.level, node, before, after, around, step.after - step.before)
        if borne is not None:
            found.append(_describe(history, levels, time, before, after, step, *borne))
    return found


def _units(time: Floats) -> Ints:
    """Which stretch each run is of, counted without gaps."""
    for length in STRETCHES_S:
        unit = np.unique(np.floor(time / length), return_inverse=True)[1]
        if unit.max() + 1 >= STRETCHES_MIN:
            return unit
    return np.arange(len(time))


def _first_run(level: Floats, unit: Ints, step: Step) -> int:
    """The first run at the new level: a change does not wait for the end of a stretch."""
    near = np.flatnonzero((unit >= step.at - 1) & (unit <= step.at))
    old, new = np.abs(level[near] - step.before), np.abs(level[near] - step.after)
    cost = np.concatenate(([0.0], np.cumsum(old))) + np.concatenate((np.cumsum(new[::-1])[::-1], [0.0]))
    return int(near[0]) + int(np.argmin(cost))


def _borne(
    level: Floats, node: Ints, before: np.ndarray, after: np.ndarray, around: np.ndarray, change: float
) -> tuple[int, str] | None:
    """How many nodes show the step, and in words how that is known; None where they do not bear it out."""
    both = np.intersect1d(node[before], node[after])
    showing = 0
    for one in both:
        mine = node == one
        own = float(np.median(level[mine & after]) - np.median(level[mine & before]))
        showing += own / change >= 0.5
    if not node.any():  # the class has this one alone
        return (1, "a single node: it or the class has changed") if showing else None
    measured = before | after
    if len(both) < min(BEARERS, len(np.unique(node[measured]))) or 2 * showing <= len(both):
        return None
    if len(both) <= BEARING_SHARE * len(np.unique(node[measured & around])):
        return None
    return showing, f"{showing} of {len(both)} nodes with runs before and after show it"


def _describe(
    history: ClassHistory,
    levels: Levels,
    time: Floats,
    before: np.ndarray,
    after: np.ndarray,
    step: Step,
    nodes: int,
    note: str,
) -> _Found:
    known = history.cells[levels.largest]
    old, new = np.isin(known.run, levels.run[before]), np.isin(known.run, levels.run[after])
    return _Found(
        group=levels.group,
        cell=levels.largest,
        at=float(time[after].min()),
        change=expm1(step.after - step.before),
        nodes=nodes,
        note=note,
        before=float(np.median(known.busbw[old])) if old.any() else float("nan"),
        after=float(np.median(known.busbw[new])) if new.any() else float("nan"),
    )


def _together(found: list[_Found], plateau: set[Group]) -> list[tuple[list[_Found], Cell | None]]:
    """Steps that are one point: all plateau groups the same way within a stretch, and what else steps with them."""
    left = list(found)
    points: list[tuple[list[_Found], Cell | None]] = []
    while left:
        first = left[0]
        same = [one for one in left if abs(one.at - first.at) <= STRETCHES_S[0] and one.change * first.change > 0]
        if len(plateau) > 1 and plateau <= {one.group for one in same}:
            points.append((same, None))
            left = [one for one in left if one not in same]
        else:
            points.append(([first], first.cell))
            left = left[1:]
    return points


def _point(history: ClassHistory, parts: list[_Found], cell: Cell | None) -> ChangePoint:
    main = next((one for one in parts if one.group.regime is Regime.PLATEAU), parts[0])
    shown = ", ".join(f"{one.group}: {100 * one.change:+.1f} %" for one in parts)
    whole = f"levels are of {main.cell.operation.value} at {main.cell.size_bytes} bytes; " if cell is None else ""
    return ChangePoint(
        class_hash=history.class_hash,
        profile=history.profile,
        cell=cell,
        at=min(one.at for one in parts),
        before=main.before,
        after=main.after,
        nodes=max(one.nodes for one in parts),
        state=ChangeState.OPEN,
        note=f"{shown}; {whole}{main.note}",
    )
