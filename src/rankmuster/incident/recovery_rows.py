"""The boundary of a fault: the recovery table, and the operator's own rows before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.diagnose.recovery import TABLE, recovery_for
from rankmuster.incident.config import RecoveryRow
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row for operators. `boundary`: what holds in every case; None where it depends on confidence or progress.

    `rows`: the operator's own that may come before the table's, by their number in the configuration, from 1.
    """

    class_: FaultClass
    subclass: Subkind | None
    table: Boundary
    boundary: Boundary | None
    rows: tuple[tuple[int, RecoveryRow], ...] = ()


def boundary_for(
    class_: FaultClass,
    subclass: Subkind | None,
    confidence: Confidence | None,
    progress: Progress,
    rows: Sequence[RecoveryRow] = (),
) -> tuple[Boundary, Boundary, str | None]:
    """(what holds, what the table says, which row of the operator's it is where one fits: the first that does)."""
    table = recovery_for(class_, subclass).boundary
    for number, row in enumerate(rows, 1):
        if _fits(row, class_, subclass) and row.confidence in (None, confidence) and row.progress in (None, progress):
            reason = f": {row.reason}" if row.reason else ""
            return row.boundary, table, f"recovery row {number} says {row.boundary.value}{reason}"
    return table, table, None


def whole_table(rows: Sequence[RecoveryRow] = ()) -> tuple[TableRow, ...]:
    """All classes and sub-kinds, in the order of the table, with what the operator's rows make of them."""
    found = []
    for class_, subclass in TABLE:
        table = TABLE[class_, subclass].boundary
        fitting = tuple((number, row) for number, row in enumerate(rows, 1) if _fits(row, class_, subclass))
        always = next(
            (at for at, (_, row) in enumerate(fitting) if row.confidence is None and row.progress is None), None
        )
        before = fitting if always is None else fitting[: always + 1]
        last = table if always is None else before[-1][1].boundary
        certain = all(row.boundary is last for _, row in before)
        found.append(TableRow(class_, subclass, table, last if certain else None, before))
    return tuple(found)


def _fits(row: RecoveryRow, class_: FaultClass, subclass: Subkind | None) -> bool:
    """A row for a class fits all its sub-kinds; one for a sub-kind fits that one alone."""
    return row.class_ in (None, class_) and row.subclass in (None, subclass)
