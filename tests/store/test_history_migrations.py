"""A history outlives the version that made it: brought up to date with what it holds, or left alone with a word."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table, insert, inspect, select, text

from history_made import CLASS, PROFILE, START, admission, run
from journal_made import finished
from postgres_server import PASSWORD, Postgres
from rankmuster.model.history import ChangeState
from rankmuster.store import migrate
from rankmuster.store.engine import make_engine, writing
from rankmuster.store.errors import HistoryError, NewerHistory, NotAHistory, OlderHistory
from rankmuster.store.history import History
from rankmuster.store.journal import Journal
from rankmuster.store.place import place_of
from rankmuster.store.records import with_record
from rankmuster.store.schema import VERSION_TABLE, VERSIONS, metadata
from rankmuster.store.verify import verify

MARK = text(
    "INSERT INTO rankmuster_change (class_hash, profile, at, nodes, state, note) "
    "VALUES (:name, :profile, :at, 3, 'open', '')"
)


def copied(source: Connection, target: Connection, table: Table) -> None:
    """The rows of a table, as far as an older version has its columns."""
    there = inspect(target)
    if not there.has_table(table.name):
        return
    names = [column["name"] for column in there.get_columns(table.name) if column["name"] in table.columns]
    rows = source.execute(select(*(table.c[name] for name in names))).mappings().all()
    if rows:
        target.execute(insert(table), [dict(row) for row in rows])


def first_version(url: str, folder: Path) -> None:
    """A history as the first version left it, with runs and a change point."""
    place = place_of(url)
    engine = make_engine(place, create=True)
    migrate.upgrade(engine, place, to="0001")
    with (
        History.open(str(folder / "newest.db")) as newest,
        writing(engine, place, "filling") as connection,
    ):
        newest.put_many([run(0), run(1)])
        with newest.reading("copying") as source:
            for table in metadata.sorted_tables:
                copied(source, connection, table)
        connection.execute(MARK, {"name": CLASS, "profile": PROFILE, "at": START})
    engine.dispose()


def works(history: History) -> None:
    """What the first version stored is there, and what the newest can do works with it."""
    assert history.runs() == (run(1), run(0))
    # every run has the digest that a decision looks at
    assert history.class_history(CLASS, PROFILE, include_after_open=True).total == 2
    (point,) = history.changes()
    decided = history.set_change_state(point.id or 0, ChangeState.DISMISSED, until=START + 1)
    assert decided.until == START + 1
    assert history.class_history(CLASS, PROFILE).records == (run(1).record,)
    assert history.put_admission(admission(), b"{}")


def test_the_migrations_make_the_tables_that_the_program_uses(url: str) -> None:
    with History.open(url) as history, history.reading("comparing") as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_the_known_versions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    assert tuple(one.revision for one in reversed(list(scripts.walk_revisions()))) == VERSIONS


def test_an_older_file_is_brought_up_to_date_when_it_is_opened(tmp_path: Path) -> None:
    url = str(tmp_path / "history.db")
    first_version(url, tmp_path)
    with History.open(url, create=False) as history:
        works(history)


def test_an_older_server_database_is_brought_up_to_date_when_that_is_asked(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    first_version(url, tmp_path)
    with pytest.raises(OlderHistory, match="rankmuster history upgrade"):
        History.open(url)
    assert History.upgrade(url) == ("0001", VERSIONS[-1])
    assert History.upgrade(url) == (VERSIONS[-1], VERSIONS[-1])
    with History.open(url) as history:
        works(history)


def test_tables_beside_those_of_others_are_made_only_when_that_is_asked(postgres: Postgres) -> None:
    database = postgres.new_database()
    postgres.execute("CREATE TABLE other (x int)", database)
    url = postgres.url(database, password=PASSWORD)
    with pytest.raises(OlderHistory, match="tables of something else"):
        History.open(url)
    assert History.upgrade(url) == (None, VERSIONS[-1])
    with History.open(url) as history:
        assert history.put(run())


def test_a_migration_that_fails_changes_nothing(url: str, tmp_path: Path) -> None:
    first_version(url, tmp_path)
    place = place_of(url)
    engine = make_engine(place, create=False)
    with writing(engine, place, "being in the way") as connection:
        connection.execute(text("CREATE TABLE rankmuster_admitted_node (x INTEGER)"))
    with pytest.raises(HistoryError, match="bringing the tables up to date failed"):
        History.upgrade(url)
    with writing(engine, place, "clearing the way") as connection:
        assert migrate.version_of(connection) == "0001"
        connection.execute(text("DROP TABLE rankmuster_admitted_node"))
    engine.dispose()
    History.upgrade(url)
    with History.open(url) as history:
        works(history)


def test_a_newer_history_is_left_as_it_is(url: str) -> None:
    with History.open(url) as history:
        history.put(run())
        with history.writing("ageing") as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    before = Path(url).read_bytes() if "://" not in url else b""
    for attempt in (History.open, History.upgrade):
        with pytest.raises(NewerHistory, match=r"0999.*nothing was written"):
            attempt(url)
    assert not before or Path(url).read_bytes() == before


def test_a_database_of_something_else_gets_no_tables(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x INTEGER)")
    connection.close()
    before = file.read_bytes()
    for attempt in (History.open, History.upgrade):
        with pytest.raises(NotAHistory, match=r"something else .*mine"):
            attempt(str(file))
    assert file.read_bytes() == before


def test_a_journal_comes_into_a_history_of_the_version_before_it(url: str, tmp_path: Path) -> None:
    runs = [with_record(run(number)) for number in range(2)]
    place = place_of(url)
    engine = make_engine(place, create=True)
    migrate.upgrade(engine, place, to="0004")
    with (
        History.open(str(tmp_path / "newest.db")) as newest,
        writing(engine, place, "filling") as connection,
    ):
        newest.put_many(runs)
        newest.put_admission(admission(), b"{}")
        with newest.reading("copying") as source:
            for table in metadata.sorted_tables:
                copied(source, connection, table)
    engine.dispose()
    if "://" in url:
        with pytest.raises(OlderHistory, match=r"the journal .*`rankmuster history upgrade --history`"):
            Journal.open(url)
        assert Journal.upgrade(url) == ("0004", VERSIONS[-1])
    with Journal.open(url) as journal, History.open(url) as history:
        name = finished(journal)
        assert len(journal.events(name)) == 2
        assert history.runs() == (runs[1], runs[0])
        assert verify(history).changed == ()
        assert len(history.admissions()) == 1
