"""A node's results by group of cells: scores of each process, ready to be held against a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.regimes import Group, grouped
from rankmuster.model.benchmark import BenchmarkRun, Cell
from rankmuster.model.hardware import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One group. `time_us`, `busbw`: of shape (processes, cells), NaN where a process lacks the size."""

    cells: tuple[Cell, ...]
    time_us: Floats
    busbw: Floats

    @property
    def processes(self) -> int:
        """How many processes have anything of this group."""
        return len(self.time_us)


def measured(runs: Sequence[BenchmarkRun]) -> dict[Group, Measured]:
    """By group, in a fixed order. Measurements without a time that is a positive number count as not made; of one
    that a process made twice the later counts."""
    rows: list[dict[Cell, tuple[float, float]]] = []
    for run in runs:
        row = {m.cell: (m.time_us, m.busbw) for m in run.measurements if m.time_us > 0 and np.isfinite(m.time_us)}
        rows.append(row)
    found: dict[Group, Measured] = {}
    for group, cells in grouped(cell for row in rows for cell in row).items():
        mine = [row for row in rows if any(cell in row for cell in cells)]
        missing = (np.nan, np.nan)
        table = np.array([[row.get(cell, missing) for cell in cells] for row in mine], dtype=np.float64)
        found[group] = Measured(cells, table[:, :, 0], table[:, :, 1])
    return found
