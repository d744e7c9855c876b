"""Digests of runs whose results are in the tables already: of an import, whose results come after the runs, and of a
history that was made before there were digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, update

from rankmuster.store.damage import stored
from rankmuster.store.plain import CellKey
from rankmuster.store.query import results_of
from rankmuster.store.run_digest import Head, columns, run_digest
from rankmuster.store.schema import class_table, node_table, profile_table, run_table

CHUNK = 500
"""Runs at a time; some 20,000 results, a few MB."""


def write_digests(connection: Connection, above: int = 0) -> None:
    """Of all runs that have none, with numbers above `above`. Raises Damaged where a result holds no numbers."""
    last = above
    while rows := connection.execute(_heads(last)).all():
        ids = [row[0] for row in rows]
        found = _results(connection, ids)
        made = []
        with stored("results of a run"):
            for number, *head in rows:
                cells, numbers = found.get(number, ([], []))
                known: Head = (head[0], head[1], head[2], head[3], head[4], float(head[5]))
                made.append({"run": number, "made": run_digest(known, *columns(cells, numbers))})
        statement = update(run_table).where(run_table.c.id == bindparam("run")).values(digest=bindparam("made"))
        connection.execute(statement, made)
        last = ids[-1]


def _heads(last: int) -> Select[Any]:
    run = run_table.c
    return (
        select(run.id, run.record, class_table.c.class_hash, node_table.c.node_hash, profile_table.c.key)
        .add_columns(run.state, run.started_at)
        .select_from(run_table)
        .join(class_table, class_table.c.id == run.class_id)
        .join(profile_table, profile_table.c.id == run.profile_id)
        .join(node_table, node_table.c.id == run.node_id)
        .where(run.id > last, run.digest.is_(None))
        .order_by(run.id)
        .limit(CHUNK)
    )


def _results(
    connection: Connection, ids: Sequence[int]
) -> dict[int, tuple[list[CellKey], list[Sequence[float | None]]]]:
    found: dict[int, tuple[list[CellKey], list[Sequence[float | None]]]] = {}
    for row in connection.execute(results_of(connection, ids)):
        cells, numbers = found.setdefault(row[0], ([], []))
        cells.append((row[1], row[2], row[3], bool(row[4]), bool(row[5])))
        numbers.append(tuple(row[6:]))
    return found
