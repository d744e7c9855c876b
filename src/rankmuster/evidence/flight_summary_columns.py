"""The columns of a summary's dumps, out of its body and its tables, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from rankmuster.evidence.flight_summary_numbers import Cursor, unpack, unpack_alike, unpack_floats
from rankmuster.evidence.flight_summary_schema import COLUMNS, MAX_PATH
from rankmuster.evidence.flight_summary_tables import TableReader, number_of, text_of, within
from rankmuster.evidence.flight_table import MAX_FRAMES
from rankmuster.model.flight import FlightColumns, Indexes, State

LEFT_BEHIND: tuple[tuple[str, ...], ...] = ((),)
"""`stacks` of a dump whose stacks were all left behind: that there were some slowed the job, which detectors weigh."""


def columns_of(
    described: list[Any], tables: TableReader, stacks: list[tuple[str, ...]], cursor: Cursor
) -> Iterable[FlightColumns]:
    """The tables of every dump; the body has them column by column."""
    taken: list[dict[str, Any]] = [{} for _ in described]
    counts = [one["entries"] for one in described]
    for place, name in enumerate(COLUMNS):
        forms = [one["columns"][place] for one in described]
        if name == "duration_ms":
            columns: list[Any] = [unpack_floats(form, count, cursor) for form, count in zip(forms, counts, strict=True)]
        elif name in ("started_ns", "completed_ns"):
            columns = [
                unpack(form, count, cursor, own["created_ns"])
                for form, count, own in zip(forms, counts, taken, strict=True)
            ]
        else:
            columns = unpack_alike(forms, counts, cursor)
        for own, column in zip(taken, columns, strict=True):
            own[name] = column
    for one, own in zip(described, taken, strict=True):
        own |= tables.of(one["tables"])
        within(own["call"], len(own["calls"]), "calls")
        within(own["state"], len(State), "states")
        within(own["retired"], 2, "flags")
        yield FlightColumns(
            **own
            | {
                "call": _narrow(own["call"], np.int32),
                "state": _narrow(own["state"], np.int8),
                "retired": _narrow(own["retired"], np.bool_),
                **_last_stack(one, stacks),
            }
        )


def stacks_of(listed: list[Any], spend: Callable[[int], None]) -> list[tuple[str, ...]]:
    """The stacks that were kept, of the last calls. `spend` counts frames against what the file may hold."""
    spend(sum(map(len, listed)))
    return [tuple(text_of(frame, MAX_PATH) for frame in frames[:MAX_FRAMES]) for frames in listed]


def _last_stack(one: dict[str, Any], stacks: list[tuple[str, ...]]) -> dict[str, Any]:
    """`stack` and `stacks` of a dump of which the last call's stack was kept, or none."""
    count = one["entries"]
    if one["stack"] == -1:
        left = LEFT_BEHIND if one["stacks"] is True else ()
        return {"stack": np.broadcast_to(np.int32(-1), count), "stacks": left}
    place = number_of(one["stack"], len(stacks) - 1)
    return {"stack": _only_the_last(count), "stacks": (stacks[place],)}


@lru_cache(maxsize=16)
def _only_the_last(count: int) -> Indexes:
    """No stack but the last entry's; dumps of one length share it."""
    column = np.full(count, -1, np.int32)
    column[-1] = 0
    column.flags.writeable = False
    return column


def _narrow(column: Any, dtype: Any) -> Any:
    """A column that is one value, broadcast, stays so."""
    if len(column) and column.strides == (0,):
        return np.broadcast_to(column[0].astype(dtype), len(column))
    return column.astype(dtype)
