"""A journal that cannot be opened, read or written says so in words with what to do, in time, and changes nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journal_made import begun, finished, held, noted, opening
from postgres_server import PASSWORD, Postgres
from rankmuster.store.errors import Busy, Full, HistoryError, NewerHistory, NotAHistory, OlderHistory, Unreachable
from rankmuster.store.history import History
from rankmuster.store.journal import Journal
from rankmuster.store.kind import JOURNAL
from rankmuster.store.place import default_place


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals wait for less, so that tests do."""
    less = replace(JOURNAL, busy_seconds=0.5, connect_seconds=2, answer_seconds=1.5)
    monkeypatch.setattr("rankmuster.store.journal.JOURNAL", less)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal with some incidents."""
    path = tmp_path / "incidents.db"
    with Journal.open(str(path)) as journal:
        for number in range(20):
            finished(journal, f"llm-{number}")
    return path


def script(body: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a program that has `Journal`, `begun` and `noted`."""
    heading = (
        "import os, resource, signal, sys\n"
        "from journal_made import begun, noted\n"
        "from rankmuster.store.errors import HistoryError\n"
        "from rankmuster.store.journal import Journal\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, "-c", heading + body, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_it_is_a_file_of_its_own_in_the_state_folder(tmp_path: Path) -> None:
    assert default_place({"HOME": "/h"}, JOURNAL) == "/h/.local/state/rankmuster/incidents.db"
    assert default_place({"RANKMUSTER_JOURNAL": "postgresql://x/y", "RANKMUSTER_HISTORY": "z"}, JOURNAL) == (
        "postgresql://x/y"
    )


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50_000])


def text(file: Path) -> None:
    file.write_text("a list of things to do, longer than any header" * 10)


def others(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x INTEGER)")
    connection.close()


def newer(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE rankmuster_version SET version_num = '0999'")
    connection.close()


def lacking(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE rankmuster_lease")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        (emptied, NotAHistory, r"no journal is ever made so.*restore it from a copy, or remove"),
        (cut, NotAHistory, r"the journal .* is cut off.*restore it from a copy$"),
        (text, NotAHistory, "is no journal: it does not begin as an SQLite database does"),
        (others, NotAHistory, "is an SQLite database of something else"),
        (newer, NewerHistory, r"the journal .* is of a newer rankmuster.*or name another journal"),
        (lacking, NotAHistory, r"the journal .* lacks the table rankmuster_lease.*restore it from a copy$"),
    ],
)
def test_what_is_no_journal_is_said_and_left_alone(
    file: Path, harm: Callable[[Path], None], kind: type[Exception], said: str
) -> None:
    harm(file)
    before = file.read_bytes()
    with pytest.raises(kind, match=said):
        Journal.open(str(file))
    assert file.read_bytes() == before


def test_one_that_is_not_there_is_made_only_where_that_is_wanted(tmp_path: Path) -> None:
    place = tmp_path / "state" / "incidents.db"
    with pytest.raises(Unreachable, match=r"there is no journal at .*`rankmuster incident serve` makes it"):
        Journal.open(str(place), create=False)
    assert not place.parent.exists()
    with pytest.raises(Unreachable, match="no journal is named"):
        Journal.open("")
    with pytest.raises(Unreachable, match=r"the journal .* is a folder"):
        Journal.open(str(tmp_path))


def test_no_server_is_said_at_once_and_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(Unreachable, match=r"opening it failed|looking .* failed on the journal") as caught:
        Journal.open(f"postgresql://user:hunter2@/db?host={tmp_path}")
    assert "hunter2" not in str(caught.value)


def test_an_older_server_database_names_the_command(postgres: Postgres) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    Journal.open(url).close()
    database = url.partition("@/")[2].partition("?")[0]
    postgres.execute("UPDATE rankmuster_version SET version_num = '0004'", database)
    with pytest.raises(OlderHistory, match=r"the journal .*`rankmuster history upgrade --history` with its place"):
        Journal.open(url)


def test_a_writer_does_not_wait_long_for_others(file: Path, impatient: None) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    with Journal.open(str(file)) as journal:
        name, lease = begun(journal)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy, match=r"failed on the journal .*another process has held it"):
            journal.append(name, lease, noted())
        assert len(journal.events(name)) == 1
        other.close()
        assert journal.append(name, lease, noted()).sequence == 2


def test_a_server_whose_rows_others_hold_is_not_waited_for_long(postgres: Postgres, impatient: None) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    with Journal.open(url) as journal, Journal.open(url) as other:
        name, lease = begun(journal)
        with other._writing("holding") as connection:
            connection.exec_driver_sql("LOCK TABLE rankmuster_lease IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Busy, match="others have held it for too long"):
                journal.append(name, lease, noted())
        assert journal.append(name, lease, noted()).sequence == 2


def processes(running: Postgres) -> list[int]:
    """The postmaster and those that serve clients."""
    asked = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    postmaster = int((running.folder / "data" / "postmaster.pid").read_text().split()[0])
    return [postmaster, *map(int, running.execute(asked, "postgres").split())]


def test_a_server_that_stops_answering_is_not_waited_for_without_end(postgres: Postgres, impatient: None) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    with Journal.open(url) as journal:
        name, lease = begun(journal)
        found = processes(postgres)
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable, match="the server did not answer") as caught:
                journal.append(name, lease, noted())
            assert PASSWORD not in str(caught.value)
        finally:
            for pid in found:
                os.kill(pid, signal.SIGCONT)
        assert journal.append(name, lease, noted()).sequence == 2


def test_a_connection_that_hangs_is_left_for_a_new_one(postgres: Postgres, impatient: None) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    with Journal.open(url) as journal:
        name, lease = begun(journal)
        found = processes(postgres)[1:]
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert journal.append(name, lease, noted()).sequence == 2
        finally:
            for pid in found:
                os.kill(pid, signal.SIGCONT)


def test_a_server_that_was_started_again_is_gone_on_with(postgres: Postgres) -> None:
    url = postgres.url(postgres.new_database(), password=PASSWORD)
    with Journal.open(url) as journal:
        name, lease = begun(journal)
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()", "postgres"
        )
        assert journal.append(name, lease, noted()).sequence == 2


def test_a_full_disk_writes_nothing_of_an_event_and_goes_on_when_there_is_room(file: Path) -> None:
    """A limit on the size of files acts as a full disk does."""
    body = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with Journal.open(sys.argv[1]) as journal:\n"
        "    name, lease = begun(journal)\n"
        "    old = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, old[1]))\n"
        "    written = 1\n"
        "    try:\n"
        "        while True:\n"
        "            written = journal.append(name, lease, noted('x' * 3000)).sequence\n"
        "    except HistoryError as error:\n"
        "        print(type(error).__name__, error, sep=': ')\n"
        "    assert len(journal.events(name)) == written\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, old)\n"
        "    assert journal.append(name, lease, noted()).sequence == written + 1\n"
    )
    done = script(body, file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Full: writing noted into the incident"), done.stdout
    with Journal.open(str(file)) as journal:
        assert len(journal.incidents()) == 21


def test_a_database_without_room_writes_nothing(file: Path) -> None:
    from sqlalchemy import Engine, event

    pages = sqlite3.connect(file).execute("PRAGMA page_count").fetchone()[0]

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    event.listen(Engine, "connect", limit)
    try:
        with Journal.open(str(file)) as journal:
            name, lease = begun(journal)

            def fill() -> None:
                for _ in range(100):
                    journal.append(name, lease, noted("x" * 3000))

            with pytest.raises(Full, match="make room"):
                fill()
            assert journal.events(name)
    finally:
        event.remove(Engine, "connect", limit)


def test_one_that_may_only_be_read_is_listed_and_not_written(file: Path) -> None:
    """As a user without the right to write; root has every right, and gives them up once everything is imported."""
    body = (
        "with Journal.open(sys.argv[2]) as other:\n"
        "    begun(other)\n"
        "    other.incidents()\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([])\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "with Journal.open(sys.argv[1], create=False) as journal:\n"
        "    assert len(journal.incidents()) == 20\n"
        "    assert journal.events(journal.incidents()[0].id)\n"
        "    try:\n"
        "        journal.tell(journal.incidents()[0].id, noted())\n"
        "    except HistoryError as error:\n"
        "        print(type(error).__name__, error, sep=': ')\n"
    )
    folder = file.parent / "read-only"
    folder.mkdir()
    file = file.rename(folder / file.name)
    file.chmod(0o444)
    folder.chmod(0o555)
    above = folder.parent
    while os.getuid() == 0 and above.name.startswith(("test_", "pytest", "popen")):
        above.chmod(above.stat().st_mode | 0o555)
        above = above.parent
    try:
        done = script(body, file, folder.parent / "other.db")
        assert done.stdout.startswith("ReadOnly: writing noted into the incident"), done.stderr
    finally:
        folder.chmod(0o755)


def test_a_history_and_a_journal_may_share_a_database(url: str) -> None:
    with Journal.open(url) as journal, History.open(url) as history:
        finished(journal)
        assert history.runs() == ()
        assert len(journal.incidents()) == 1


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1.76e12])
def test_an_opening_at_no_time_is_refused(url: str, at: float) -> None:
    with Journal.open(url) as journal:
        with pytest.raises(HistoryError, match="no incident can be opened"):
            journal.open_incident(opening(at=at), "runner-a")
        with pytest.raises(HistoryError, match="no incident can be opened"):
            journal.open_incident(opening(""), "runner-a")
        assert journal.incidents() == ()


@pytest.mark.parametrize("seconds", [0.0, -5.0, float("nan"), float("inf")])
def test_a_lease_of_no_time_is_refused(url: str, seconds: float) -> None:
    with Journal.open(url) as journal:
        with pytest.raises(HistoryError, match="cannot be given"):
            journal.take_lease("llm-0", "runner-a", seconds)
        lease = held(journal)
        with pytest.raises(HistoryError, match="cannot be given"):
            journal.renew(lease, seconds)
