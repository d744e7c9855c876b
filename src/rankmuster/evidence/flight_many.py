"""Entries of a decoded document into columns, a column at a time; what they share is looked up by what it says."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.evidence.flight_table import (
    INTEGER_FIELDS,
    ZERO_WHEN_ABSENT,
    ColumnBuilder,
    cost_of,
    duration_of,
    integer,
    state_of,
)

_SHARED = (
    "process_group", "pg_name", "pg_id", "profiling_name", "input_sizes", "output_sizes", "input_dtypes",
    "output_dtypes", "is_p2p", "timeout_ms",
)  # fmt: skip
"""Keys of what ColumnBuilder.call_of reads."""


def add_all(builder: ColumnBuilder, entries: Sequence[Mapping[str, Any]]) -> None:
    """The same as `builder.add` for each entry.

    For documents in which every value stands where it is used: of values that entries share each is written out again.
    """
    for name, key in INTEGER_FIELDS:
        absent = 0 if name in ZERO_WHEN_ABSENT else -1
        builder.integers[name].extend(_integers([entry.get(key) for entry in entries], absent))
    builder.call.extend(_calls(builder, entries))
    builder.stack.extend([builder.stack_of(entry.get("frames")) for entry in entries])
    builder.state.extend([state_of(entry.get("state")) for entry in entries])
    builder.durations.extend([duration_of(entry.get("duration_ms")) for entry in entries])
    builder.retired.extend([entry.get("retired") is True for entry in entries])


def _integers(values: list[Any], absent: int) -> array[int]:
    if set(map(type, values)) == {int}:
        try:
            return array("q", values)
        except OverflowError:
            pass
    return array("q", [integer(value, absent) for value in values])


def _calls(builder: ColumnBuilder, entries: Sequence[Mapping[str, Any]]) -> list[int]:
    from msgspec import msgpack  # not needed by a watch, which reads no dumps

    write = msgpack.Encoder().encode
    known: dict[bytes, tuple[int, int, int, int]] = {}  # call, cost, group and its pg_id
    found = []
    for entry in entries:
        get = entry.get
        try:
            key = write([get(name) for name in _SHARED])
        except (ValueError, OverflowError, RecursionError, TypeError):  # odd numbers and texts, nests
            found.append(builder.call_of(entry))
            continue
        before = known.get(key)
        if before is None or before[1] > builder.items:
            call = builder.call_of(entry)
            own, pg_id = next(reversed(builder.calls.index))[:2] if call == len(builder.calls.index) - 1 else (-1, 0)
            if own >= 0:
                known[key] = (call, cost_of(entry), own, pg_id)
        else:
            call, cost, own, pg_id = before
            builder.items -= cost
            builder.last_pg_id[own] = pg_id
        found.append(call)
    return found
