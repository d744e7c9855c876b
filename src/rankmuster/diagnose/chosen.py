"""Some rows of a table; a column of one value stays one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.flight import Ints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Column = TypeVar("Column", bound=NDArray[Any])
Table = TypeVar("Table", bound="DataclassInstance")


@lru_cache(maxsize=256)
def every_row(count: int) -> Ints:
    """0 to `count` - 1, read-only and shared by all dumps of one length."""
    rows: Ints = np.arange(count, dtype=np.int64)
    rows.flags.writeable = False
    return rows


def taken(column: Column, rows: NDArray[Any]) -> Column:
    """`column[rows]`; of a column that is one value, broadcast, another of that value."""
    if len(column) and column.strides[0] == 0:
        return cast("Column", np.broadcast_to(column[0], len(rows)))
    return cast("Column", column.take(rows))


def joined(tables: Sequence[Table]) -> Table:
    """The rows of all tables, at least one, which are dataclasses of columns: one after the other."""
    first = tables[0]
    return type(first)(*(np.concatenate([getattr(one, column.name) for one in tables]) for column in fields(first)))


def seconds(stamps: Ints) -> NDArray[np.float64]:
    """Unix seconds of nanoseconds."""
    if len(stamps) and stamps.strides[0] == 0:
        return np.broadcast_to(stamps[0] / 1e9, len(stamps))
    return stamps / 1e9
