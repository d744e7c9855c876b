"""What a class's history says of one group of cells: per size its centres and spread, and those of the level.

Scores are -ln(time in microseconds): higher is faster, and a difference is a ratio, of busbw as well as of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from rankmuster.baseline.applicable import applicable
from rankmuster.baseline.distribution import Distribution, distribution
from rankmuster.baseline.modes import Modes, find_modes
from rankmuster.baseline.regimes import Group, grouped
from rankmuster.baseline.thresholds import MODES_SEEN, UNSEEN_MODE, JudgeSettings, RegimeThresholds
from rankmuster.model.benchmark import Cell
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ClassHistory, Ints

LEVEL_SIZES_SHARE = 0.5
"""A run has a level where it has at least this part of the sizes: the median of a few of them is another quantity."""


@dataclass(frozen=True, slots=True, eq=False)
class CellReference:
    """One size. `modes`: centres as scores; `spread`: of runs around their mode.

    `unseen`: how much slower a healthy mode may be that the history is too young to have seen, as a logarithm.
    """

    cell: Cell
    modes: Modes
    spread: Distribution
    unseen: float


@dataclass(frozen=True, slots=True, eq=False)
class GroupReference:
    """All sizes of a group that the history suffices for. `level`: of the median over sizes of a run's distances."""

    cells: dict[Cell, CellReference]
    level: Distribution

    @property
    def unseen(self) -> float:
        """As `CellReference.unseen`, for the level: that of most sizes."""
        return median(cell.unseen for cell in self.cells.values())


class ClassReference:
    """A class's history, made ready for judging; each group is computed when it is first asked for, and kept."""

    def __init__(self, history: ClassHistory, settings: JudgeSettings) -> None:
        self.history = history
        self.settings = settings
        self._node: Ints = np.unique(np.array(history.nodes, dtype=object).astype(str), return_inverse=True)[1]
        self._known: dict[tuple[Group, tuple[Cell, ...]], GroupReference | None] = {}
        self._grouped = grouped(history.cells)

    def runs(self, group: Group) -> tuple[int, int]:
        """Runs of the baseline that have anything of this group, and their nodes."""
        rows = self._rows(group, self._grouped.get(group, ()))
        return int(rows.sum()), len(np.unique(self._node[rows]))

    def of(self, group: Group, cells: Sequence[Cell]) -> GroupReference | None:
        """The reference for those of `cells` that the history has; None where it does not suffice."""
        key = (group, tuple(cells))
        if key not in self._known:
            self._known[key] = self._build(group, [cell for cell in cells if cell in self.history.cells])
        return self._known[key]

    def _rows(self, group: Group, cells: Sequence[Cell]) -> NDArray[np.bool_]:
        seen = np.zeros(len(self.history.nodes), dtype=np.bool_)
        for cell in cells:
            seen[self.history.cells[cell].run] = True
        return seen & applicable(self.history, group)

    def _build(self, group: Group, cells: Sequence[Cell]) -> GroupReference | None:
        limits = self.settings.regimes[group.regime]
        rows = self._rows(group, cells)
        score = np.full((len(rows), len(cells)), np.nan)
        for column, cell in enumerate(cells):
            known = self.history.cells[cell]
            usable = (known.time_us > 0) & np.isfinite(known.time_us)
            score[known.run[usable], column] = -np.log(known.time_us[usable])
        score = score[rows]
        enough = np.isfinite(score).sum(axis=0) >= self.settings.runs_min
        if not enough.any():
            return None
        score, node = score[:, enough], self._node[rows]
        found: dict[Cell, CellReference] = {}
        away = np.full(score.shape, np.nan)
        for column, cell in enumerate(cell for cell, use in zip(cells, enough, strict=True) if use):
            modes, distance = _around(score[:, column], node, limits)
            away[:, column] = distance
            have = np.isfinite(distance)
            spread = _distribution(distance[have], node[have], limits)
            young = limits.modes and len(modes.centers) == 1 and spread.runs < MODES_SEEN
            unseen = UNSEEN_MODE if young else 0.0
            found[cell] = CellReference(cell, modes, spread, unseen)
        level = level_over_sizes(away)
        have = np.isfinite(level)
        if have.sum() < self.settings.runs_min:
            return None
        return GroupReference(found, _distribution(level[have], node[have], limits))


def _around(score: Floats, node: Ints, limits: RegimeThresholds) -> tuple[Modes, Floats]:
    """The modes of one size, and how far each run is from its own; NaN where it lacks the size."""
    have = np.isfinite(score)
    distance = np.full(len(score), np.nan)
    if limits.modes:
        modes = find_modes(score[have], node[have], limits.mode_gap)
        distance[have] = score[have] - np.array(modes.centers)[modes.label]
        return modes, distance
    center = _distribution(score[have], node[have], limits).center
    distance[have] = score[have] - center
    return Modes((center,), np.zeros(int(have.sum()), dtype=np.int64)), distance


def _distribution(score: Floats, node: Ints, limits: RegimeThresholds) -> Distribution:
    return distribution(score, node, node_sd=limits.node_sd, run_sd=limits.run_sd, outlier=limits.outlier)


def level_over_sizes(away: Floats) -> Floats:
    """Median over sizes per run, of shape (runs,); NaN where a run has too few of them."""
    have = np.isfinite(away)
    if have.all():
        return np.asarray(np.median(away, axis=1))
    level = np.full(len(away), np.nan)
    rows = have.sum(axis=1) >= max(1.0, LEVEL_SIZES_SHARE * away.shape[1])
    if rows.any():
        level[rows] = np.nanmedian(away[rows], axis=1)
    return level
