"""Connections: SQLite as a file that several processes may write, PostgreSQL with a limit on waiting."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.pool import QueuePool

from rankmuster.store.answer_in_time import answer_in_time
from rankmuster.store.errors import NotAHistory, StoreMissing, Unreachable
from rankmuster.store.failures import told
from rankmuster.store.place import Place

OLDEST_SQLITE = (3, 35)
"""RETURNING (3.35, March 2021); window functions are older."""

_BEGIN = "rankmuster_begin"

_HEADER = b"SQLite format 3\x00"


def make_engine(place: Place, *, create: bool) -> Engine:
    """An engine for it; no connection is made yet but what finding out about a file needs.

    Raises Unreachable, NotAHistory, StoreMissing.
    """
    if place.file is not None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(str(part) for part in OLDEST_SQLITE)
            raise StoreMissing(f"the {place.kind.word} needs SQLite {wanted}; this Python has {sqlite3.sqlite_version}")
        return _sqlite(place.file, place, create)
    try:
        url = make_url(place.url or "")
    except ValueError as error:  # a port that is no number
        raise Unreachable(f"{place.called} is no URL that can be used: {error}") from error
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(place.kind.connect_seconds)})
    engine = create_engine(url, pool_size=2, max_overflow=8, pool_timeout=place.kind.busy_seconds)
    if place.kind.answer_seconds is not None:
        answer_in_time(engine, place.kind.busy_seconds, place.kind.answer_seconds)
    return engine


@contextmanager
def writing(engine: Engine, place: Place, doing: str) -> Iterator[Connection]:
    """One transaction that writes: all of it is stored when the block ends, or nothing."""
    with told(place, doing), engine.connect() as connection:
        connection = connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
        with connection.begin():
            yield connection


@contextmanager
def reading(engine: Engine, place: Place, doing: str) -> Iterator[Connection]:
    """One transaction that reads: everything in it is of one moment, whoever writes meanwhile."""
    with told(place, doing), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


def let_readers_go_on(engine: Engine) -> None:
    """Makes a new SQLite file one whose readers go on while one writes (WAL); the file keeps it."""
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        # where it is locked, another process is making it at this moment, and does this too
        with suppress(sqlite3.OperationalError):
            driver.execute("PRAGMA journal_mode = WAL")


def _sqlite(file: Path, place: Place, create: bool) -> Engine:
    _must_be_usable(file, place, create)
    read_only = file.exists() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))
    mode = "mode=ro" if read_only else "mode=rwc" if create else "mode=rw"
    if read_only and not _opens(file, mode):
        if _has_content(file.with_name(file.name + "-wal")):
            raise Unreachable(
                f"{place.called} is being written by others, or was not closed, and cannot be read without "
                f"the right to write to its folder; ask for that right, or for {place.kind.restore}"
            )
        # nobody writes to what is mounted read-only, and SQLite could not make its lock files there
        mode = "immutable=1"
    target = f"file:{_quoted(file)}?{mode}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            target, uri=True, timeout=place.kind.busy_seconds, check_same_thread=False, isolation_level=None
        )

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=2,
        max_overflow=8,
        pool_timeout=place.kind.busy_seconds,
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        # what was said to be stored is on the disk, also after a power cut
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")  # KiB

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


def _quoted(file: Path) -> str:
    """For SQLite's URI, whatever bytes the name has."""
    return quote(os.fsencode(file.absolute()))


def _must_be_usable(file: Path, place: Place, create: bool) -> None:
    """What SQLite itself would say in few words, or not at all."""
    try:
        if file.is_dir():
            raise Unreachable(f"{place.called} is a folder; name a file in it")
        if not file.exists():
            if not create:
                raise Unreachable(f"there is no {place.kind.word} at {place.name}; {place.kind.made_by}")
            file.parent.mkdir(parents=True, exist_ok=True)
            return
        if not file.is_file():
            raise Unreachable(f"{place.called} is no ordinary file")
        with file.open("rb") as opened:
            head = opened.read(100)
    except OSError as error:
        raise Unreachable(f"{place.called} cannot be opened: {error.strerror or error}") from error
    if not head:
        raise NotAHistory(
            f"{place.name} is empty: no {place.kind.word} is ever made so, its file was emptied or the disk was full; "
            f"restore it from {place.kind.restore}, or remove the file to begin anew"
        )
    if not head.startswith(_HEADER):
        raise NotAHistory(
            f"{place.name} is no {place.kind.word}: it does not begin as an SQLite database does; name another file"
        )
    if not any(_has_content(file.with_name(file.name + end)) for end in ("-wal", "-journal")):
        _must_be_whole(file, head, place)


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def _must_be_whole(file: Path, head: bytes, place: Place) -> None:
    """SQLite notices a file that was cut off only where it reads what is missing; its head says how long it is.

    Page size at byte 16 (1 stands for 65536), pages at byte 28 (https://www.sqlite.org/fileformat2.html, 1.3).
    """
    page = int.from_bytes(head[16:18], "big")
    wanted = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    size = file.stat().st_size
    if len(head) < 100 or size < wanted:
        raise NotAHistory(
            f"{place.called} is cut off: it holds {size:,} of {wanted:,} bytes; restore it from {place.kind.restore}"
        )


def _opens(file: Path, mode: str) -> bool:
    try:
        connection = sqlite3.connect(f"file:{_quoted(file)}?{mode}", uri=True)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return True
