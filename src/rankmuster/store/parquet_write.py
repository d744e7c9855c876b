"""The history out, as parquet: of one moment, in parts that fit in memory, whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from rankmuster.store.changes import read_changes
from rankmuster.store.documents import read_admissions, read_fingerprints
from rankmuster.store.errors import Refused
from rankmuster.store.history import History
from rankmuster.store.parquet_form import ALL, KIND, TABLES, Arrow, arrow
from rankmuster.store.parquet_seal import seal
from rankmuster.store.plain import CELL_NAMES, choices_text, numbers_of, settings_text
from rankmuster.store.read_runs import every_run
from rankmuster.store.schema import (
    admission_table,
    change_table,
    class_table,
    fingerprint_table,
    result_table,
    run_table,
)

ENDING = ".parquet"

_ROWS_OF = {
    "runs": run_table,
    "results": result_table,
    "fingerprints": fingerprint_table,
    "changes": change_table,
    "admissions": admission_table,
}

Rows = tuple[str, list[dict[str, Any]]]


def write_parquet(history: History, target: Path) -> dict[str, int]:
    """Writes everything to `target`: one file where its name ends with `.parquet`, else a new folder; rows by table.

    Raises HistoryError; Refused where `target` is in the way or cannot be written.
    """
    pa = arrow()
    single = target.name.endswith(ENDING)
    if target.exists() and (not single or target.is_dir()):
        raise Refused(
            f"cannot export to {target}: it is there already; name a new folder, or a file ending with {ENDING}"
        )
    beside = target.parent / f".{target.name[:100]}.{uuid.uuid4().hex[:12]}.part"
    try:
        with history.reading("exporting") as connection:
            counts = {kind: _count(connection, table) for kind, table in _ROWS_OF.items()}
            _write(pa, connection, beside, single, counts)
        for file in [beside] if single else beside.iterdir():
            seal(file)
        os.replace(beside, target)
    except OSError as error:
        raise Refused(f"cannot export to {target}: {error.strerror or error}") from error
    finally:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)
    return counts


def _write(pa: Arrow, connection: Connection, place: Path, single: bool, counts: dict[str, int]) -> None:
    facts, export = json.dumps(counts), uuid.uuid4().hex
    with ExitStack() as stack:

        def writer(path: Path, kind: str) -> Any:
            made = pa.parquet.ParquetWriter(path, pa.schema(kind, facts, export), compression="zstd")
            return stack.enter_context(made)

        if single:
            one, schema = writer(place, ALL), pa.schema(ALL, facts, export)
            for kind, rows in _everything(connection):
                table = pa.arrow.Table.from_pylist([row | {KIND: kind} for row in rows], schema=schema)
                one.write_table(table)
            return
        place.mkdir()
        writers = {kind: writer(place / f"{kind}{ENDING}", kind) for kind in TABLES}
        for kind, rows in _everything(connection):
            writers[kind].write_table(pa.arrow.Table.from_pylist(rows, schema=pa.schema(kind, facts, export)))


def _everything(connection: Connection) -> Iterator[Rows]:
    for runs in every_run(connection):
        yield (
            "runs",
            [
                {
                    **{name: getattr(run, name) for name in TABLES["runs"] if hasattr(run, name)},
                    "state": run.state.value,
                    "settings": settings_text(run.settings),
                    "choices": choices_text(run.choices),
                    "results": len(run.values),
                }
                for run in runs
            ],
        )
        names = list(TABLES["results"])
        rows = [
            (run.record, position, *_cell(value.cell), *numbers_of(value))
            for run in runs
            for position, value in enumerate(run.values)
        ]
        yield "results", [dict(zip(names, row, strict=True)) for row in rows]
    yield "fingerprints", _fingerprints(connection)
    yield "changes", _changes(connection)
    yield "admissions", _admissions(connection)


def _fingerprints(connection: Connection) -> list[dict[str, Any]]:
    columns = (class_table.c.class_hash, class_table.c.settings, class_table.c.definition)
    classes = {row[0]: (row[1], row[2]) for row in connection.execute(select(*columns))}
    rows = []
    for one in read_fingerprints(connection):
        settings, definition = classes.get(one.class_hash or "", (None, None))
        facts = {name: getattr(one, name) for name in TABLES["fingerprints"] if hasattr(one, name)}
        rows.append(facts | {"class_settings": settings, "class_definition": definition})
    return rows


def _changes(connection: Connection) -> list[dict[str, Any]]:
    return [
        {
            **(dict(zip(CELL_NAMES, _cell(point.cell), strict=True)) if point.cell else {}),
            **{name: getattr(point, name) for name in ("class_hash", "profile", "at", "nodes", "note")},
            "level_before": point.before,
            "level_after": point.after,
            "state": point.state.value,
            "kept_out_until": point.until,
        }
        for point in read_changes(connection)
    ]


def _admissions(connection: Connection) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(one, name) for name in TABLES["admissions"] if hasattr(one, name)},
            "node_names": json.dumps(one.nodes),
        }
        for one in reversed(read_admissions(connection))
    ]


def _cell(cell: Any) -> tuple[Any, ...]:
    operation, *others = astuple(cell)
    return operation.value, *others


def _count(connection: Connection, table: Any) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar() or 0
