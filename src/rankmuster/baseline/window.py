"""Which runs of a class are its baseline, by its change points: points in, a span of time with gaps out.

The one answer to that: the store reads runs by it, and the judge leaves out by it what it was given beside.

- ACCEPTED: the baseline begins at the last one.
- OPEN: marked, not decided. The baseline stays at the level before it, so runs from it on are left out.
- DISMISSED with an end: the runs between are left out, whatever else was found among them (a bad week of one switch and
  its recovery). Without an end it is like an open one that nobody has to look at any more.

A point of one cell counts for that cell alone, one without a cell for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.benchmark import Cell
from rankmuster.model.hardware import Floats
from rankmuster.model.history import ChangePoint, ChangeState


@dataclass(frozen=True, slots=True)
class Window:
    """Runs that started at `begin` or later, before `end`, and in none of the `gaps` [from, to). Unix seconds."""

    begin: float = -math.inf
    end: float = math.inf
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def whole(self) -> bool:
        """Whether no run is left out."""
        return self == Window()

    def holds(self, started_at: Floats) -> NDArray[np.bool_]:
        """Of shape (runs,), as `started_at` (unix seconds): True where a run is of the baseline."""
        use = (started_at >= self.begin) & (started_at < self.end)
        for start, stop in self.gaps:
            use &= ~((started_at >= start) & (started_at < stop))
        return use


def window(points: Iterable[ChangePoint], *, until: float | None = None, include_after_open: bool = False) -> Window:
    """The baseline by `points`, which are those of one class, profile and cell (with those of all cells).

    `include_after_open`: as if there were no OPEN ones.
    """
    ordered = sorted(points, key=lambda point: point.at)
    begin = max((point.at for point in ordered if point.state is ChangeState.ACCEPTED), default=-math.inf)
    weeks = [(point.at, point.until) for point in ordered if point.state is ChangeState.DISMISSED and point.until]
    gaps = [(start, stop) for start, stop in weeks if stop > max(start, begin)]
    end = math.inf if until is None else until
    for point in ordered:
        if point.state is ChangeState.ACCEPTED or point.at <= begin:
            continue
        if point.state is ChangeState.DISMISSED and point.until:
            continue
        if point.state is ChangeState.OPEN and include_after_open:
            continue
        if any(start < point.at <= stop for start, stop in weeks):
            continue
        end = min(end, point.at)
    return Window(begin, end, tuple(gap for gap in gaps if gap[0] < end))


def windows(
    points: Iterable[ChangePoint], *, until: float | None = None, include_after_open: bool = False
) -> tuple[Window, dict[Cell, Window]]:
    """(the window of all cells, the windows of those cells that have points of their own)."""
    every = list(points)
    common = [point for point in every if point.cell is None]

    def of(some: list[ChangePoint]) -> Window:
        return window(some, until=until, include_after_open=include_after_open)

    own = {point.cell for point in every if point.cell is not None}
    return of(common), {cell: of(common + [point for point in every if point.cell == cell]) for cell in own}
