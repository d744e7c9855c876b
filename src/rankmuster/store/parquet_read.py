"""The history in, from parquet: every file is looked at before anything is stored, and all is stored or nothing.

A run that is there already stays as it is, and so does a decision about a change point. Rows come from files that may
be cut off, edited, or of something else: every value is checked as one that is brought by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rankmuster.store.errors import HistoryError, Refused
from rankmuster.store.history import History
from rankmuster.store.parquet_form import ALL, KIND, SCHEMA, TABLES, Arrow, arrow
from rankmuster.store.parquet_rows import Counted, store_rows
from rankmuster.store.parquet_seal import check_seal
from rankmuster.store.write_runs import count_anew

ROWS = 65_536
"""Rows read at a time."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file. `kind`: its table, or `ALL`; `export`: the one that it is of, by a name that no other has."""

    path: Path
    kind: str
    counts: dict[str, int]
    export: str


def read_parquet(history: History, paths: Sequence[Path]) -> Counted:
    """Stores what the files hold: folders and files of `write_parquet`, in any mixture. What was new, and what not.

    Raises HistoryError; Refused names the file and what is wrong with it. Nothing was stored then.
    """
    pa = arrow()
    sets = _sets(pa, paths)
    for parts in sets:
        _must_be_complete(parts)
    total = Counted()
    with history.writing("importing parquet") as connection:
        for parts in sets:
            try:
                total += store_rows(connection, partial(_rows, pa, parts))
            except HistoryError as error:
                names = ", ".join(str(part.path) for part in parts)
                raise type(error)(f"cannot import {names}: {error}; nothing was stored") from error
        count_anew(connection)
    return total


def _sets(pa: Arrow, paths: Iterable[Path]) -> list[list[Part]]:
    """Files that belong together: those of a folder, a single file, and all tables that were named one by one."""
    found: list[list[Part]] = []
    loose: list[Part] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"))
            if not inside:
                raise Refused(f"cannot import {path}: there is no file ending with .parquet in it")
            if strange := next((one for one in inside if not one.is_file()), None):
                raise Refused(f"cannot import {strange}: it is no regular file")
            found.append([_part(pa, one) for one in inside])
            continue
        if path.exists() and not path.is_file():
            raise Refused(f"cannot import {path}: it is no regular file")
        part = _part(pa, path)
        if part.kind == ALL:
            found.append([part])
        else:
            loose.append(part)
    return [*found, loose] if loose else found


def _part(pa: Arrow, path: Path) -> Part:
    check_seal(path)
    try:
        with path.open("rb") as file:
            schema = pa.parquet.ParquetFile(file).schema_arrow
    except OSError as error:
        if error.errno is not None:
            raise Refused(f"cannot import {path}: {error.strerror or error}") from error
        raise _damaged(path, error) from error
    except (UnicodeDecodeError, pa.arrow.ArrowException) as error:
        raise _damaged(path, error) from error
    facts = {key.decode("utf-8", "replace"): value for key, value in (schema.metadata or {}).items()}
    said = facts.get("schema", b"").decode("utf-8", "replace")
    if said != SCHEMA:
        what = f"its schema is {said[:60]!r}" if said else "it does not say what it is"
        raise Refused(f"cannot import {path}: it is parquet, and no history ({what}, not {SCHEMA})")
    try:
        kind = facts[KIND].decode()
        counts = {str(name): int(count) for name, count in json.loads(facts["counts"]).items()}
        wanted = pa.schema(kind, "")
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise Refused(f"cannot import {path}: what it says about itself was changed ({error})") from error
    for field in wanted:
        if field.name not in schema.names or schema.field(field.name).type != field.type:
            raise Refused(f"cannot import {path}: its column {field.name} is missing or not of type {field.type}")
    return Part(path, kind, counts, facts.get("export", b"").decode("utf-8", "replace"))


def _must_be_complete(parts: Sequence[Part]) -> None:
    """A folder from which a file is missing would import runs without their results, or forget decisions."""
    kinds = {part.kind for part in parts}
    if ALL in kinds and len(parts) > 1:
        raise Refused(f"cannot import {parts[0].path.parent}: it holds exports of both forms; import them one by one")
    if other := next((part for part in parts if part.export != parts[0].export), None):
        raise Refused(
            f"cannot import {parts[0].path} with {other.path}: they are of two exports, of which each is of another "
            "moment; give the files of one export, and import the other by itself"
        )
    lacking = [kind for kind in TABLES if kinds != {ALL} and kind not in kinds and parts[0].counts.get(kind)]
    if lacking:
        raise Refused(
            f"cannot import {', '.join(str(part.path) for part in parts)}: the export has {lacking[0]} too "
            f"({parts[0].counts[lacking[0]]} rows); give the whole folder, or {lacking[0]}.parquet as well"
        )


def _rows(pa: Arrow, parts: Sequence[Part], kind: str) -> Iterator[list[dict[str, Any]]]:
    """The rows of one table, in parts. Raises Refused for a file that is damaged inside, or has too few rows."""
    for part in parts:
        if part.kind not in (kind, ALL):
            continue
        count = 0
        try:
            with part.path.open("rb") as opened:
                file = pa.parquet.ParquetFile(opened)
                columns = [*TABLES[kind], *([KIND] if part.kind == ALL else [])]
                for batch in file.iter_batches(ROWS, columns=columns):
                    rows = batch.to_pylist()
                    if part.kind == ALL:
                        rows = [row for row in rows if row[KIND] == kind]
                    count += len(rows)
                    yield rows
        except (OSError, UnicodeDecodeError, pa.arrow.ArrowException) as error:
            raise _damaged(part.path, error) from error
        if count != part.counts.get(kind, 0):
            raise Refused(f"{part.path} has {count} of {part.counts.get(kind, 0)} rows of {kind}: it was changed")


def _damaged(path: Path, error: Exception) -> Refused:
    said = " ".join(str(error).split())[:200]
    return Refused(f"{path} is no parquet file, or is cut off or damaged ({said}); nothing was stored")
