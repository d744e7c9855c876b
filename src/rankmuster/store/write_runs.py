"""Runs into the tables: what repeats by its number, each run once, however many writers bring it.

Two writers at once: rows are inserted "unless they are there" and looked up afterwards, always in the same order, so
that the second waits for the first instead of both waiting for each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from rankmuster.model.benchmark import Cell, HistoryRun
from rankmuster.store.errors import Conflict
from rankmuster.store.plain import (
    CELL_NAMES,
    CellKey,
    cell_key,
    check_run,
    choices_text,
    numbers_of,
    settings_text,
    sound,
)
from rankmuster.store.query import among
from rankmuster.store.run_digest import digest_of
from rankmuster.store.schema import (
    cell_table,
    choices_table,
    class_table,
    node_table,
    profile_table,
    result_table,
    run_table,
)

CHUNK = 500
"""Runs handled at a time when many are brought; some 20,000 results, a few MB."""


def put_runs(connection: Connection, runs: Iterable[HistoryRun]) -> int:
    """Stores those that are not there yet within the caller's transaction; how many.

    After many, PostgreSQL counts anew: until it has (by itself a minute later), it reads whole tables for one class.

    Raises Refused for an unsound run, Conflict for a class stored with other settings.
    """
    stored = 0
    for chunk in _chunks(runs):
        stored += _put_chunk(connection, chunk)
    if stored >= CHUNK:
        count_anew(connection)
    return stored


def count_anew(connection: Connection) -> None:
    """Lets PostgreSQL see how large its tables have become."""
    if connection.dialect.name == "postgresql":
        for table in (run_table, result_table):
            connection.exec_driver_sql(f"ANALYZE {table.name}")


def numbers(connection: Connection, table: Table, column: str, wanted: Iterable[str]) -> dict[str, int]:
    """The row numbers of texts, of which those that are missing are inserted."""
    texts = sorted(set(wanted))
    if not texts:
        return {}
    found = _known(connection, table, column, texts)
    if missing := [text for text in texts if text not in found]:
        connection.execute(insert_new(connection, table), [{column: text} for text in missing])
        found |= _known(connection, table, column, missing)
    return found


def cell_numbers(connection: Connection, cells: Iterable[Cell]) -> dict[CellKey, int]:
    """The row numbers of cells; there are at most a few thousand, so that all are read."""
    wanted = {cell_key(cell) for cell in cells}
    if not wanted:
        return {}
    found = _known_cells(connection)
    if missing := sorted(wanted - found.keys()):
        names = CELL_NAMES
        connection.execute(insert_new(connection, cell_table), [dict(zip(names, key, strict=True)) for key in missing])
        found = _known_cells(connection)
    return found


def insert_new(connection: Connection, table: Table) -> Any:
    """An insert that passes over rows which are there already."""
    made: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return made(table).on_conflict_do_nothing()


def class_numbers(connection: Connection, classes: dict[str, tuple[str, str]]) -> dict[str, int]:
    """The row numbers of classes, given their kin hash and settings. Raises Conflict where those are others."""
    if not classes:
        return {}
    rows = [
        {"class_hash": name, "kin_hash": kin, "settings": settings} for name, (kin, settings) in sorted(classes.items())
    ]
    columns = (class_table.c.class_hash, class_table.c.id, class_table.c.kin_hash, class_table.c.settings)
    query = select(*columns).where(among(connection, class_table.c.class_hash, sorted(classes)))
    found = {row[0]: row[1:] for row in connection.execute(query)}
    if missing := [row for row in rows if row["class_hash"] not in found]:
        connection.execute(insert_new(connection, class_table), missing)
        found = {row[0]: row[1:] for row in connection.execute(query)}
    for name, (_, kin, settings) in found.items():
        if (kin, settings) != classes[name]:
            raise Conflict(
                f"the class {name[:20]} is stored with other content: kin {kin[:20]}, settings {settings[:300]}; now "
                f"kin {classes[name][0][:20]}, settings {classes[name][1][:300]}. A hash names one thing: these are of "
                "different versions of rankmuster, or a file was edited; nothing was stored"
            )
    return {name: row[0] for name, row in found.items()}


def _chunks(runs: Iterable[HistoryRun]) -> Iterator[list[HistoryRun]]:
    chunk: list[HistoryRun] = []
    for run in runs:
        check_run(run)
        chunk.append(run)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _put_chunk(connection: Connection, runs: Sequence[HistoryRun]) -> int:
    cells = cell_numbers(connection, (value.cell for run in runs for value in run.values))
    by_record = {run.record: run for run in runs}
    inserted = put_heads(connection, runs)
    insert_results(
        connection,
        [
            (inserted[record], position, cells[cell_key(value.cell)], *numbers_of(value))
            for record in inserted
            for position, value in enumerate(by_record[record].values)
        ],
    )
    return len(inserted)


def put_heads(connection: Connection, runs: Sequence[HistoryRun], *, whole: bool = True) -> dict[str, int]:
    """Stores runs without their results: the numbers of those that were not there, by record.

    `whole`: the runs have their results, and so a digest; `write_digests` makes it later otherwise."""
    by_record = {run.record: run for run in runs}
    there = _known(connection, run_table, "record", sorted(by_record))
    new = [by_record[record] for record in sorted(by_record) if record not in there]
    if not new:
        return {}
    class_ids = class_numbers(connection, _classes(new))
    profiles = numbers(connection, profile_table, "key", (run.profile for run in new))
    nodes = numbers(connection, node_table, "node_hash", (run.node_hash for run in new))
    choices = _choice_numbers(connection, new)
    rows = [
        {
            "record": run.record,
            "class_id": class_ids[run.class_hash],
            "profile_id": profiles[run.profile],
            "node_id": nodes[run.node_hash],
            "choices_id": choices[choices_text(run.choices)],
            "host": None if run.host is None else sound(run.host),
            "tool": sound(run.tool),
            "started_at": float(run.started_at),
            "state": run.state.value,
            "reason": sound(run.reason),
            "digest": digest_of(run) if whole else None,
        }
        for run in new
    ]
    # sorted by record; those that another writer stores meanwhile are waited for, and come back from neither
    statement = insert_new(connection, run_table).returning(run_table.c.record, run_table.c.id)
    return {row[0]: row[1] for row in connection.execute(statement, rows)}


def insert_results(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Inserts rows of `result`, in the order of its columns."""
    if not rows:
        return
    names = [column.name for column in result_table.columns]
    if connection.dialect.name == "postgresql":
        _copy(connection, names, rows)
        return
    places = ", ".join("?" * len(names))
    connection.exec_driver_sql(f"INSERT INTO {result_table.name} ({', '.join(names)}) VALUES ({places})", list(rows))  # noqa: S608  # names of our own


def _copy(connection: Connection, names: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """COPY takes a million rows in a tenth of the time of inserts, and is as much a part of the transaction."""
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {result_table.name} ({', '.join(names)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _classes(runs: Iterable[HistoryRun]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for run in runs:
        content = (run.kin_hash, settings_text(run.settings))
        if found.setdefault(run.class_hash, content) != content:
            raise Conflict(
                f"the runs that were brought have the class {run.class_hash[:20]} with different content: settings "
                f"{found[run.class_hash][1][:300]} and {content[1][:300]}; nothing was stored"
            )
    return found


def _choice_numbers(connection: Connection, runs: Iterable[HistoryRun]) -> dict[str, int]:
    """By their JSON; found by its digest, since an index over long texts has limits."""
    texts = {hashlib.sha256(text.encode()).hexdigest(): text for text in {choices_text(run.choices) for run in runs}}
    found = _known(connection, choices_table, "digest", sorted(texts))
    if missing := [digest for digest in sorted(texts) if digest not in found]:
        rows = [{"digest": digest, "choices": texts[digest]} for digest in missing]
        connection.execute(insert_new(connection, choices_table), rows)
        found |= _known(connection, choices_table, "digest", missing)
    return {texts[digest]: number for digest, number in found.items()}


def _known(connection: Connection, table: Table, column: str, texts: Sequence[str]) -> dict[str, int]:
    query = select(table.c[column], table.c.id).where(among(connection, table.c[column], texts))
    return {row[0]: row[1] for row in connection.execute(query)}


def _known_cells(connection: Connection) -> dict[CellKey, int]:
    columns = [cell_table.c[name] for name in (*CELL_NAMES, "id")]
    return {
        (operation, size, dtype, bool(in_place), bool(graph)): number
        for operation, size, dtype, in_place, graph, number in connection.execute(select(*columns))
    }
