"""Versions of the tables: which one a database has, and bringing it up to date in one transaction.

An SQLite file is brought up to date whenever it is opened: it belongs to whoever opens it, and a second process waits
for the first. A PostgreSQL database may serve a fleet whose other programs are older: it is changed when that is asked
for, or when there is nothing in it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from rankmuster.store.engine import let_readers_go_on, reading, writing
from rankmuster.store.errors import NewerHistory, NotAHistory, OlderHistory, Unreachable
from rankmuster.store.failures import told
from rankmuster.store.journal_tables import ALL_TABLES
from rankmuster.store.place import Place
from rankmuster.store.schema import VERSION_TABLE, VERSIONS

NEWEST = VERSIONS[-1]

_ONE_AT_A_TIME = 0x72616E6B6D757374  # "rankmust"; the number of PostgreSQL's advisory lock


_ALEMBIC = threading.Lock()
"""Alembic keeps the migration that runs in modules of its own: of two threads one would find the other's."""


def version_of(connection: Connection) -> str | None:
    """The version of the tables, None where there are none of this program."""
    if connection.dialect.name == "postgresql":
        there = text("SELECT to_regclass(:name) IS NOT NULL")
    else:
        there = text("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name")
    if not connection.execute(there, {"name": VERSION_TABLE}).scalar():
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608  # a constant


def make_ready(engine: Engine, place: Place, *, create: bool) -> None:
    """Makes the tables where the database is empty and `create` says so, and brings an SQLite file up to date.

    Raises Unreachable, NotAHistory, NewerHistory, OlderHistory; nothing was written then.
    """
    with reading(engine, place, "looking for the tables") as connection:
        version = version_of(connection)
        if version == NEWEST:
            _must_have_all(connection, place)
            return
        _must_be_ours(connection, version, place)
        _must_be_known(version, place)
    if version is None and not create:
        raise Unreachable(f"there is no {place.kind.word} in {place.name} yet; {place.kind.made_by}")
    if version is not None and engine.dialect.name != "sqlite":
        raise OlderHistory(
            f"{place.called} has tables of version {version}, this program works with {NEWEST}: bring it "
            f"up to date with {place.kind.upgraded_by} (older programs cannot use it then)"
        )
    if version is None and engine.dialect.name == "sqlite":
        with told(place, f"making the {place.kind.word}"):
            let_readers_go_on(engine)
    upgrade(engine, place)


def upgrade_asked(engine: Engine, place: Place) -> tuple[str | None, str]:
    """`upgrade` where a person asks for it, beside other tables too, but not into an SQLite file of something else.

    Raises NotAHistory too.
    """
    with reading(engine, place, "looking for the tables") as connection:
        version = version_of(connection)
        if engine.dialect.name == "sqlite":
            _must_be_ours(connection, version, place)
    return upgrade(engine, place)


def upgrade(engine: Engine, place: Place, to: str = NEWEST) -> tuple[str | None, str]:
    """Brings the tables up to date: (version before, version now). What is stored stays. `to`: a version, for tests of
    the next one.

    Raises NewerHistory, and what the database raises; nothing was changed then.
    """
    with writing(engine, place, "bringing the tables up to date") as connection:
        if engine.dialect.name != "sqlite":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ONE_AT_A_TIME})
        before = version_of(connection)
        _must_be_known(before, place)
        if before != NEWEST:
            _run(connection, to)
        return before, to


def _run(connection: Connection, to: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, to)


def _must_have_all(connection: Connection, place: Place) -> None:
    """A table that is gone is said by whatever opens it, not by the one command that happens to read it."""
    if connection.dialect.name == "sqlite":
        there = {row[0] for row in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))}
        lacking = [name for name in ALL_TABLES if name not in there]
    else:
        found = text("SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NULL")
        lacking = [row[0] for row in connection.execute(found, {"names": list(ALL_TABLES)})]
    if lacking:
        raise NotAHistory(
            f"{place.called} lacks the table {lacking[0]}: it is damaged; restore it from {place.kind.restore}"
        )


def _must_be_known(version: str | None, place: Place) -> None:
    if version is not None and version not in VERSIONS:
        raise NewerHistory(
            f"{place.called} is of a newer rankmuster: its tables have version {version}, this program knows "
            f"{NEWEST} and older; nothing was written - install the newer program, or name another {place.kind.word}"
        )


def _must_be_ours(connection: Connection, version: str | None, place: Place) -> None:
    if version is not None:
        return
    others = inspect(connection).get_table_names()
    if others and connection.dialect.name == "sqlite":
        raise NotAHistory(
            f"{place.name} is an SQLite database of something else (it has the table {others[0]}); name another file"
        )
    if others:
        raise OlderHistory(
            f"the database {place.name} holds tables of something else and none of a {place.kind.word}; if the "
            f"{place.kind.word} is to live there, make its tables with {place.kind.upgraded_by}"
        )
