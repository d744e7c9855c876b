"""What ranks passed to their collectives: one number per distinct call, over all dumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.op_names import base_name
from rankmuster.model.flight import CallField, FlightColumns, Indexes, Ints

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What one rank passed to one collective: operation without backend, sizes and dtypes per tensor."""

    op: str
    in_sizes: Shapes
    out_sizes: Shapes
    in_dtypes: tuple[str, ...]
    out_dtypes: tuple[str, ...]


class Signatures:
    """All signatures met, numbered in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Signature, int] = {}

    def all(self) -> tuple[Signature, ...]:
        return tuple(self._numbers)

    def of(self, flight: FlightRows) -> Indexes:
        """The number of each collective of a dump, shape (collectives,)."""
        columns = flight.dump.columns
        call = columns.call if flight.whole else columns.call[flight.row]
        numbers = np.full(len(columns.calls), -1, dtype=np.int32)
        for used in np.flatnonzero(np.bincount(call, minlength=len(numbers))).tolist():
            numbers[used] = self._number(_signature(columns, (used,)))
        found: Indexes = numbers[call]
        batches = flight.batches
        if len(batches.ends):
            positions = np.searchsorted(flight.row, batches.ends)
            kept = positions < len(flight.row)
            kept[kept] = flight.row[positions[kept]] == batches.ends[kept]
            for count in np.unique(batches.counts[kept]).tolist():
                here = np.flatnonzero(kept & (batches.counts == count))
                found[positions[here]] = self._of_parts(columns, batches.parts, batches.starts[here], count)
        return found

    def _of_parts(self, columns: FlightColumns, parts: Ints, starts: Ints, count: int) -> Indexes:
        """A coalesced collective is what its parts are, one after the other."""
        calls = columns.call[parts[starts[:, None] + np.arange(count)]]
        distinct, which = np.unique(calls, axis=0, return_inverse=True)
        numbers = [self._number(_signature(columns, tuple(own))) for own in distinct.tolist()]
        found: Indexes = np.array(numbers, dtype=np.int32)[which.reshape(-1)]
        return found

    def _number(self, signature: Signature) -> int:
        return self._numbers.setdefault(signature, len(self._numbers))


def _signature(columns: FlightColumns, calls: tuple[int, ...]) -> Signature:
    rows = [columns.calls[call].tolist() for call in calls]
    if len(rows) == 1:
        row = rows[0]
        return Signature(
            base_name(columns.ops[row[CallField.OP]]),
            columns.sizes[row[CallField.IN_SIZES]],
            columns.sizes[row[CallField.OUT_SIZES]],
            columns.dtypes[row[CallField.IN_DTYPES]],
            columns.dtypes[row[CallField.OUT_DTYPES]],
        )
    return Signature(
        base_name(columns.ops[rows[0][CallField.OP]]),
        tuple(shape for row in rows for shape in columns.sizes[row[CallField.IN_SIZES]]),
        tuple(shape for row in rows for shape in columns.sizes[row[CallField.OUT_SIZES]]),
        tuple(kind for row in rows for kind in columns.dtypes[row[CallField.IN_DTYPES]]),
        tuple(kind for row in rows for kind in columns.dtypes[row[CallField.OUT_DTYPES]]),
    )
