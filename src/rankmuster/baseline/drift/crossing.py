"""What a change of class did to the nodes that went through it: each against its own past, all of them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rankmuster.baseline.drift.lanes import Lane, Runs, relative
from rankmuster.baseline.drift.noise import noise_of, robust_sd
from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE, DriftSettings
from rankmuster.baseline.thresholds import MEDIAN_VARIANCE
from rankmuster.model.hardware import Floats
from rankmuster.model.history import Ints

MEDIAN_WIDER = math.sqrt(MEDIAN_VARIANCE)
"""Standard error of a median by that of a mean."""

RUNS_COMPARED = 20
"""Newest runs of a node before a change, oldest ones after it: what lies further away tells of other things."""

AT_HOME = 0.5
"""Part of a shift within which nodes are at their level again."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Nodes that went from one class to another. `shift`: relative change of the lane, median over `nodes`.

    `since`: unix seconds of the first run in the new class. `z`: the shift by its standard error. `moved`: nodes that
    each show it in their own results. `counts`: whether it is too large, and too certain, for chance.

    `lasting`: nodes whose newest results are still at that level, in the new class or in another one since; where there
    are none, `over` is when the first run of the last of them was back, in unix seconds. `returns`: the nodes were in
    the new class before, and are at the level that they had there.
    """

    before: str
    after: str
    lane: Lane
    nodes: tuple[str, ...]
    shift: float
    since: float
    z: float
    moved: tuple[str, ...]
    counts: bool
    lasting: tuple[str, ...]
    over: float | None = None
    returns: bool = False


@dataclass(frozen=True, slots=True)
class _Rows:
    """Runs of one node at a change of class. `earlier`: of the new class before that; `newest`: since its last change
    of class, which led to class `now`."""

    before: Ints
    after: Ints
    earlier: Ints
    newest: Ints
    now: int


def crossings(runs: Runs, settings: DriftSettings) -> tuple[Crossing, ...]:
    """Every change of class that some node of `runs` went through, in every lane measured before and after it."""
    transitions: dict[tuple[int, int], dict[str, _Rows]] = {}
    order = np.argsort(runs.node, kind="stable")
    starts = np.searchsorted(runs.node[order], np.arange(len(runs.nodes) + 1))
    for index, name in enumerate(runs.nodes):
        rows = order[starts[index] : starts[index + 1]]
        stays = np.split(rows, np.flatnonzero(np.diff(runs.class_[rows])) + 1)
        in_class = [int(runs.class_[stay[0]]) for stay in stays if len(stay)]
        for place in range(1, len(in_class)):
            key = in_class[place - 1], in_class[place]
            past = [stay for stay, one in zip(stays[: place - 1], in_class, strict=False) if one == key[1]]
            transitions.setdefault(key, {})[name] = _Rows(
                before=stays[place - 1][-RUNS_COMPARED:],
                after=stays[place][:RUNS_COMPARED],
                earlier=past[-1][-RUNS_COMPARED:] if past else rows[:0],
                newest=stays[-1][-RUNS_COMPARED:],
                now=in_class[-1],
            )
    found: list[Crossing] = []
    tests = max(1, len(transitions) * len(runs.level))
    for (before_class, after_class), nodes in sorted(transitions.items()):
        for lane in sorted(runs.level):
            one = _crossing(runs, lane, (before_class, after_class), nodes, tests, settings)
            if one is not None:
                found.append(one)
    return tuple(found)


def _crossing(
    runs: Runs,
    lane: Lane,
    classes: tuple[int, int],
    nodes: dict[str, _Rows],
    tests: int,
    settings: DriftSettings,
) -> Crossing | None:
    level = runs.level[lane]
    noise = noise_of(level, runs.node)
    names, shifts, variances, since, enough = [], [], [], [], []
    for name, rows in nodes.items():
        old, new = _known(level[rows.before]), _known(level[rows.after])
        if len(old) < 1 or len(new) < 1:
            continue
        names.append(name)
        shifts.append(float(np.median(new) - np.median(old)))
        variances.append(noise**2 * MEDIAN_WIDER**2 * (1 / len(old) + 1 / len(new)))
        since.append(float(runs.time[rows.after[0]]))
        enough.append(len(old) >= LEAST_RUNS_BEFORE and len(new) >= LEAST_RUNS_AFTER)
    if not names:
        return None
    values = np.array(shifts)
    # nodes react differently to one change: that counts beside the noise of each
    between = max(0.0, robust_sd(values) ** 2 - float(np.mean(variances))) if len(values) >= 3 else 0.0
    error = math.sqrt((float(np.mean(variances)) + between) / len(values)) * (MEDIAN_WIDER if len(values) > 2 else 1.0)
    shift = float(np.median(values))
    z = shift / error if error > 0 else math.copysign(math.inf, shift) if shift else 0.0
    least = settings.least_change[lane.regime]
    bound = NormalDist().inv_cdf(1 - settings.false_alarms_per_look / (2 * tests))
    moved = [
        name
        for name, value, variance in zip(names, shifts, variances, strict=True)
        if value * shift > 0 and abs(relative(value)) >= least / 2 and abs(value) > 2 * math.sqrt(variance)
    ]
    change = relative(shift)
    lasting = _lasting(level, {name: nodes[name] for name in names}, shift)
    counts = abs(change) >= least and abs(z) >= bound and (len(names) >= settings.least_nodes or all(enough))
    return Crossing(
        before=runs.classes[classes[0]],
        after=runs.classes[classes[1]],
        lane=lane,
        nodes=tuple(names),
        shift=change,
        since=min(since),
        z=z,
        moved=tuple(moved),
        counts=counts,
        lasting=lasting,
        over=None if lasting else max(float(runs.time[nodes[name].newest[0]]) for name in names),
        returns=_returns(level, [nodes[name] for name in names], shift),
    )


def _lasting(level: Floats, nodes: dict[str, _Rows], shift: float) -> tuple[str, ...]:
    """Nodes that are still at the level that the change led to: those that are in one class now are judged together."""
    away: dict[int, list[float]] = {}
    for rows in nodes.values():
        now, old = _known(level[rows.newest]), _known(level[rows.before])
        if len(now):
            away.setdefault(rows.now, []).append(float(np.median(now) - np.median(old)))
    back = {now for now, some in away.items() if float(np.median(some)) / (shift or 1.0) < AT_HOME}
    return tuple(name for name, rows in nodes.items() if rows.now not in back)


def _returns(level: Floats, nodes: list[_Rows], shift: float) -> bool:
    """Whether most of them were in the new class before, and are at the level that they had there."""
    away = [
        float(np.median(_known(level[rows.after])) - np.median(earlier))
        for rows in nodes
        if len(earlier := _known(level[rows.earlier]))
    ]
    return 2 * len(away) > len(nodes) and abs(float(np.median(away))) < AT_HOME * abs(shift)


def _known(values: Floats) -> Floats:
    return values[np.isfinite(values)]
