"""What ranks passed to their collectives: one number per distinct call, over all dumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.op_names import base_name, op_name
from rankmuster.model.flight import CallField, FlightColumns, Indexes, Ints

_SAFE = 1 << 62

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What one rank passed to one collective: operation without backend, sizes and dtypes per tensor."""

    op: str
    in_sizes: Shapes
    out_sizes: Shapes
    in_dtypes: tuple[str, ...]
    out_dtypes: tuple[str, ...]
    cut: bool = False  # the ring buffer has overwritten parts of it: what it was is unknown


class Signatures:
    """All signatures met, numbered in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Signature, int] = {}
        self._known: dict[tuple[object, ...], int] = {}  # by parts, which are at hand before a signature is made

    def all(self) -> tuple[Signature, ...]:
        return tuple(self._numbers)

    def cut(self) -> Indexes:
        """The numbers of those that a ring buffer or the end of a file has cut."""
        return np.array([index for index, signature in enumerate(self._numbers) if signature.cut], dtype=np.int32)

    def of(self, flight: FlightRows) -> Indexes:
        """The number of each row of a dump, shape (entries,); only those of collectives mean something."""
        columns = flight.dump.columns
        numbers = np.full(len(columns.calls), -1, dtype=np.int32)
        call = columns.call if flight.whole else columns.call.take(flight.row)
        for used in np.flatnonzero(np.bincount(call, minlength=len(numbers))).tolist():
            numbers[used] = self._number(columns, (used,))
        found: Indexes = numbers.take(columns.call)
        batches = flight.batches
        for count in set(batches.counts.tolist()):
            here = np.flatnonzero(batches.counts == count)
            found[batches.ends[here]] = self._of_parts(columns, batches.parts, batches.starts[here], count)
        oldest = _cut_batch(flight)
        if oldest is not None:
            found[oldest] = self._cut(base_name(columns.op_of(0)))
        if flight.dump.cut and len(found):
            # The file ends in the middle of it, or may: parts of a batch and their terminator can be missing.
            last = (columns.seq == columns.seq[-1]) & (columns.group == columns.group[-1])
            found[last] = self._cut(base_name(columns.op_of(-1)))
        return found

    def _cut(self, name: str) -> int:
        return self._numbers.setdefault(Signature(name, (), (), (), (), cut=True), len(self._numbers))

    def _of_parts(self, columns: FlightColumns, parts: Ints, starts: Ints, count: int) -> Indexes:
        """A coalesced collective is what its parts are, one after the other."""
        calls = columns.call.take(parts.take(starts[:, None] + np.arange(count))).astype(np.int64)
        base = len(columns.calls)
        if base**count < _SAFE:  # one number for all parts
            code = calls @ base ** np.arange(count)
            _, first, which = np.unique(code, return_index=True, return_inverse=True)
            distinct = calls[first]
        else:
            distinct, which = np.unique(calls, axis=0, return_inverse=True)
        numbers = [self._number(columns, tuple(own)) for own in distinct.tolist()]
        found: Indexes = np.array(numbers, dtype=np.int32)[which.reshape(-1)]
        return found

    def _number(self, columns: FlightColumns, calls: tuple[int, ...]) -> int:
        key = tuple(part for call in calls for part in _parts(columns, call))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self._numbers.setdefault(_signature(columns, calls), len(self._numbers))
        return number


def _cut_batch(flight: FlightRows) -> int | None:
    """The terminator of the collective that begins the ring buffer: parts of it may have stood before.

    Parts and their terminator are recorded one after another, so that only the first of a dump can be cut.
    """
    columns = flight.dump.columns
    if not len(columns) or int(columns.record_id[0]) <= 0:
        return None
    if op_name(columns.op_of(0)).ends_batch:
        return 0
    terminator = int(flight.batches.terminator[0])
    return terminator if terminator >= 0 and bool(flight.batches.child[0]) else None


def _parts(columns: FlightColumns, call: int) -> tuple[object, ...]:
    row = columns.calls[call].tolist()
    return (
        columns.ops[row[CallField.OP]],
        columns.sizes[row[CallField.IN_SIZES]],
        columns.sizes[row[CallField.OUT_SIZES]],
        columns.dtypes[row[CallField.IN_DTYPES]],
        columns.dtypes[row[CallField.OUT_DTYPES]],
    )


def _signature(columns: FlightColumns, calls: tuple[int, ...]) -> Signature:
    rows = [columns.calls[call].tolist() for call in calls]
    return Signature(
        base_name(columns.ops[rows[0][CallField.OP]]),
        tuple(shape for row in rows for shape in columns.sizes[row[CallField.IN_SIZES]]),
        tuple(shape for row in rows for shape in columns.sizes[row[CallField.OUT_SIZES]]),
        tuple(kind for row in rows for kind in columns.dtypes[row[CallField.IN_DTYPES]]),
        tuple(kind for row in rows for kind in columns.dtypes[row[CallField.OUT_DTYPES]]),
    )
