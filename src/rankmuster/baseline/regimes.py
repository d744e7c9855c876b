"""Which sizes are judged together: one operation, placed and launched one way, in the regime of one mechanism.

Measured on four H200s (`docs/measured.md`): up to 64 KiB a result is launch and hop latency, from 16 MiB on it is the
links' bandwidth with a spread of about 1 %; between them algorithm and protocol switch, and two modes of the same
healthy machine stand up to 40 % apart. One threshold for all of them would be wrong in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.baseline.thresholds import LATENCY_UP_TO, PLATEAU_FROM
from rankmuster.model.benchmark import Cell, Operation
from rankmuster.model.judgement import Regime


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """What is judged by one pair of statistics: the cells of one operation, placement and launch in one regime."""

    operation: Operation
    graph: bool
    in_place: bool
    regime: Regime

    def __str__(self) -> str:
        launch = ", CUDA graph" if self.graph else ""
        placed = ", in place" if self.in_place else ""
        return f"{self.operation.value}{launch}{placed}, {self.regime.value}"


_ORDER = (Regime.LATENCY, Regime.TRANSITION, Regime.PLATEAU)


def regime_of(size_bytes: int) -> Regime:
    """`size_bytes`: of the whole operation, as `Cell.size_bytes`."""
    if size_bytes <= LATENCY_UP_TO:
        return Regime.LATENCY
    return Regime.PLATEAU if size_bytes >= PLATEAU_FROM else Regime.TRANSITION


def group_of(cell: Cell) -> Group:
    """The group that a cell is judged in."""
    return Group(cell.operation, cell.graph, cell.in_place, regime_of(cell.size_bytes))


def grouped(cells: Iterable[Cell]) -> dict[Group, tuple[Cell, ...]]:
    """Cells by group, both in a fixed order (operation, launch, placement, regime; cells by size)."""
    found: dict[Group, set[Cell]] = {}
    for cell in cells:
        found.setdefault(group_of(cell), set()).add(cell)
    ordered = sorted(found, key=lambda g: (g.operation.value, g.graph, g.in_place, _ORDER.index(g.regime)))
    return {group: tuple(sorted(found[group], key=lambda c: (c.size_bytes, c.dtype))) for group in ordered}
