"""What a baseline comes to, cell by cell: quantiles of its runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.model.benchmark import Cell
from rankmuster.model.history import CellHistory, ClassHistory

QUANTILES = (0.01, 0.5, 0.99)
"""Of bus bandwidth and time per cell: what the slowest and fastest of a hundred runs have, and the middle."""


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One cell of a class: quantiles (`QUANTILES`) of busbw in GB/s and time in microseconds, over `runs`."""

    cell: Cell
    runs: int
    busbw: tuple[float, ...]
    time_us: tuple[float, ...]


def figures(history: ClassHistory) -> tuple[CellFigures, ...]:
    """Per cell, in the order of cells."""
    return tuple(_figures(one) for one in history.cells.values())


def _figures(one: CellHistory) -> CellFigures:
    quantiles = (tuple(float(value) for value in np.quantile(values, QUANTILES)) for values in (one.busbw, one.time_us))
    return CellFigures(one.cell, len(one.run), *quantiles)
