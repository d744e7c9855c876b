"""Results of a baseline's runs as columns, of which every run was found to be as it was stored.

Rows go into numpy as they come from the driver, without an object each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from rankmuster.model.benchmark import Cell
from rankmuster.store.damage import changed, stored
from rankmuster.store.plain import VALUE_NUMBERS, cell_key
from rankmuster.store.query import among
from rankmuster.store.run_digest import Head, cell_mark, run_digest
from rankmuster.store.schema import node_table, result_table, run_table

READ = ("cell_id", "run_id", "position", "busbw", "time_us", "min_us", "rank_spread_percent")
"""Columns of what `read_results` gives back."""

RUNS = 2_000
"""Runs looked at together: some 66,000 results; as tuples a million of them take 300 MB, as columns 56 MB."""

_ASKED = ("cell_id", "run_id", "position", *VALUE_NUMBERS)
_KEPT = [_ASKED.index(name) for name in READ]


@dataclass(frozen=True, slots=True)
class RunHead:
    """A run without its results. `number`: by which its results find it; `digest`: see `run_digest`."""

    number: int
    started_at: float
    node_hash: str
    record: str
    choices: int
    state: str
    digest: bytes | None


def read_heads(connection: Connection, ids: Sequence[int]) -> list[RunHead]:
    """Runs by their numbers, oldest first. Raises Damaged."""
    run = run_table.c
    query = (
        select(run.id, run.started_at, node_table.c.node_hash, run.record, run.choices_id, run.state, run.digest)
        .join(node_table, node_table.c.id == run.node_id)
        .where(among(connection, run.id, ids))
    )
    with stored("a run"):
        found = [RunHead(row[0], float(row[1]), *row[2:]) for row in connection.execute(query)]
        return sorted(found, key=lambda head: (head.started_at, head.record))


def read_results(
    connection: Connection, heads: Sequence[RunHead], cells: Mapping[int, Cell], class_hash: str, profile: str
) -> NDArray[np.float64]:
    """Shape (results, columns of `READ`), by run and position. Raises Damaged for a run that was changed."""
    marks = np.zeros(max(cells, default=0) + 1, dtype=np.uint64)
    for number, cell in cells.items():
        marks[number] = cell_mark(cell_key(cell))
    parts = [np.zeros((0, len(READ)))]
    ordered = sorted(heads, key=lambda head: head.number)
    for start in range(0, len(ordered), RUNS):
        some = ordered[start : start + RUNS]
        rows = _rows(connection, [head.number for head in some])
        with stored("a result"):
            _must_be_as_stored(rows, some, marks, class_hash, profile)
        parts.append(rows[:, _KEPT])
    return np.concatenate(parts)


def _must_be_as_stored(
    rows: NDArray[np.float64], heads: Sequence[RunHead], marks: NDArray[np.uint64], class_hash: str, profile: str
) -> None:
    numbers = np.array([head.number for head in heads])
    starts = np.searchsorted(rows[:, 1], numbers)
    stops = np.searchsorted(rows[:, 1], numbers, side="right")
    of_cells = marks[rows[:, 0].astype(np.int64)]
    for head, start, stop in zip(heads, starts, stops, strict=True):
        said: Head = (head.record, class_hash, head.node_hash, profile, head.state, head.started_at)
        if head.digest is None or run_digest(said, of_cells[start:stop], rows[start:stop, 3:]) != bytes(head.digest):
            raise changed(head.record)


def _rows(connection: Connection, ids: Sequence[int]) -> NDArray[np.float64]:
    """Shape (results, columns of `_ASKED`), by run and position."""
    query = select(*(result_table.c[name] for name in _ASKED)).where(among(connection, result_table.c.run_id, ids))
    result: Any = connection.execute(query)
    # the driver's own tuples: those of SQLAlchemy take numpy twenty times as long
    cursor = result.cursor
    with stored("a result"):
        found = np.array(cursor.fetchall(), dtype=np.float64).reshape(-1, len(_ASKED))
    result.close()
    return found[np.lexsort((found[:, 2], found[:, 1]))]
