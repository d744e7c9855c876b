"""The level of every run of a history, per group of cells: what series and steps are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.reference import level_over_sizes
from rankmuster.baseline.regimes import Group, grouped
from rankmuster.model.benchmark import Cell
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """One group, runs that have it, oldest first. `level`: median over sizes of ln(speed / the cell's median), shape
    (runs,); `run`: index into the history; `largest`: the group's largest size."""

    group: Group
    largest: Cell
    run: Ints
    level: Floats


def levels_of(history: ClassHistory) -> tuple[Levels, ...]:
    """Per group, in the order of `regimes.grouped`; groups without a run that has half of their sizes are left out."""
    found = []
    for group, cells in grouped(history.cells).items():
        score = np.full((len(history.nodes), len(cells)), np.nan)
        for column, cell in enumerate(cells):
            known = history.cells[cell]
            usable = (known.time_us > 0) & np.isfinite(known.time_us)
            values = -np.log(known.time_us[usable])
            if len(values):
                score[known.run[usable], column] = values - np.median(values)
        level = level_over_sizes(score)
        run = np.flatnonzero(np.isfinite(level))
        if len(run):
            order = run[np.argsort(history.started_at[run], kind="stable")]
            found.append(Levels(group, cells[-1], order, level[order]))
    return tuple(found)
