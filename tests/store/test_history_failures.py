"""What cannot be opened, read or written is said in words with what to do, without a password, and changes nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from history_made import CLASS, PROFILE, run
from postgres_server import PASSWORD, Postgres
from rankmuster.store.errors import (
    Busy,
    Full,
    HistoryError,
    NotAHistory,
    ReadOnly,
    Refused,
    Unreachable,
)
from rankmuster.store.history import History


@contextmanager
def every_connection(pragma: str) -> Iterator[None]:
    """Of SQLite, within the block."""

    def set_it(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA {pragma}")

    event.listen(Engine, "connect", set_it)
    try:
        yield
    finally:
        event.remove(Engine, "connect", set_it)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A history with some runs."""
    path = tmp_path / "history.db"
    with History.open(str(path)) as history:
        history.put_many(run(number) for number in range(200))
    return path


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("a list of things to do, longer than any header" * 10)
    with pytest.raises(NotAHistory, match=r"notes.txt is no history.*name another file"):
        History.open(str(file))
    assert file.read_text().startswith("a list")


@pytest.mark.parametrize("kept", [40, 100, 4096, 50_000])
def test_a_file_that_was_cut_off_is_named_before_anything_is_written(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(NotAHistory, match="cut off"):
        History.open(str(file))
    assert file.stat().st_size == kept


def test_a_damaged_file_is_named_when_the_damage_is_met(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(byte ^ 0x5A for byte in data[4096:])
    file.write_bytes(data)
    with pytest.raises(NotAHistory, match="damaged"), History.open(str(file)) as history:
        history.class_history(CLASS, PROFILE)


def test_a_folder_and_a_pipe_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="is a folder"):
        History.open(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreachable, match="no ordinary file"):
        History.open(str(tmp_path / "pipe"))


def test_a_history_that_is_not_there_is_made_only_where_that_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "history.db"
    with pytest.raises(Unreachable, match="there is no history at"):
        History.open(str(file), create=False)
    assert not file.parent.exists()
    History.open(str(file)).close()
    History.open(f"sqlite:///{file}", create=False).close()
    assert [one.name for one in file.parent.iterdir()] == ["history.db"]


@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_was_emptied_is_no_history_to_begin_anew_in(file: Path, create: bool) -> None:
    file.write_bytes(b"")
    with pytest.raises(NotAHistory, match=r"is empty.*remove the file to begin anew"):
        History.open(str(file), create=create)
    assert file.stat().st_size == 0


def test_a_history_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "history.db"

    def half(history: History) -> None:
        history.put(run())
        raise Refused("the second file is damaged")

    with pytest.raises(Refused):
        History.fill(str(file), half)
    assert list(tmp_path.iterdir()) == []
    assert History.fill(str(file), lambda history: history.put(run()))
    assert not History.fill(str(file), lambda history: history.put(run()))


def test_what_another_process_made_meanwhile_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "history.db"

    def late(history: History) -> bool:
        if not file.exists():
            with History.open(str(file)) as other:
                other.put(run(1))
        return history.put(run(0))

    assert History.fill(str(file), late)
    with History.open(str(file)) as history:
        assert history.runs() == (run(1), run(0))


def test_a_name_of_any_bytes_can_be_opened(tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/h\xff ?%.db")
    with History.open(name) as history:
        assert history.put(run())
    with History.open(name, create=False) as history:
        assert history.runs() == (run(),)


def test_a_table_that_is_gone_is_said_when_it_is_opened(url: str) -> None:
    with History.open(url) as history, history.writing("dropping") as connection:
        connection.execute(text("DROP TABLE rankmuster_result"))
    with pytest.raises(NotAHistory, match="lacks the table rankmuster_result"):
        History.open(url)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match="cannot be opened"):
        History.open(str(tmp_path / "file" / "history.db"))


def test_a_full_disk_stores_nothing_of_what_did_not_fit(file: Path) -> None:
    pages = sqlite3.connect(file).execute("PRAGMA page_count").fetchone()[0]
    with every_connection(f"max_page_count = {pages + 3}"), History.open(str(file)) as history:
        with pytest.raises(Full, match="nothing of this was stored; make room"):
            history.put_many(run(number, node="new") for number in range(3000))
        assert history.runs(node="new") == ()
        assert len(history.runs(limit=None)) == 200
    with History.open(str(file)) as history:
        assert history.put(run(0, node="new"))


def test_a_write_that_the_system_refuses_stores_nothing(file: Path) -> None:
    """A limit on the size of files acts as a quota does."""
    script = (
        "import resource, signal, sys\n"
        "from history_made import run\n"
        "from rankmuster.store.history import History\n"
        "from rankmuster.store.errors import Full\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with History.open(sys.argv[1]) as history:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "    try:\n"
        "        history.put_many(run(number, node='new') for number in range(20_000))\n"
        "    except Full as error:\n"
        "        sys.exit(str(error))\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1, done.stderr
    assert "nothing of this was stored" in done.stderr
    with History.open(str(file)) as history:
        assert len(history.runs(limit=None)) == 200


def test_a_file_that_may_only_be_read_is_read_and_not_written(file: Path) -> None:
    """As a user without the right to write; root has every right, and gives them up once everything is imported."""
    script = (
        "import os, sys\n"
        "from history_made import CLASS, PROFILE, run\n"
        "from rankmuster.store.history import History\n"
        "from rankmuster.store.errors import ReadOnly\n"
        "with History.open(sys.argv[2]) as other:\n"
        "    other.put(run())\n"
        "    other.class_history(CLASS, PROFILE)\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([])\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "with History.open(sys.argv[1], create=False) as history:\n"
        "    assert history.class_history(CLASS, PROFILE).total == 200\n"
        "    try:\n"
        "        history.put(run(1, node='new'))\n"
        "    except ReadOnly as error:\n"
        "        print(error)\n"
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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", script, str(file), str(folder.parent / "other.db")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert "it can be read only; nothing was stored" in done.stdout, done.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["history.db"]
    finally:
        folder.chmod(0o755)


def test_a_writer_does_not_wait_for_ever_for_another(file: Path) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with every_connection("busy_timeout = 100"), History.open(str(file)) as history:
        with pytest.raises(Busy, match="run it again"):
            history.put(run(0, node="new"))
        assert len(history.runs(limit=None)) == 200
    other.close()


@pytest.mark.parametrize(
    "given",
    [
        *("", " ", "mysql://root:hunter2@host/db", "sqlite://", "sqlite:///", "sqlite:///:memory:"),
        "postgresql://user:hunter2@host:notaport/db",
    ],
)
def test_what_is_no_place_for_a_history_is_said_without_its_password(given: str) -> None:
    with pytest.raises(Unreachable) as caught:
        History.open(given)
    assert "hunter2" not in str(caught.value)


def test_no_server_is_said_at_once_and_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    for url in (
        f"postgresql://user:hunter2@/db?host={tmp_path}",
        "postgresql://user:hunter2@127.0.0.1:1/db?sslpassword=hunter2",
    ):
        with pytest.raises(Unreachable, match="did not answer") as caught:
            History.open(url)
        assert "hunter2" not in str(caught.value)
        assert "user:***@" in str(caught.value)


def test_a_server_that_refuses_says_why_and_nothing_says_the_password(postgres: Postgres) -> None:
    database = postgres.new_database()
    with pytest.raises(Unreachable, match="refused this user or password") as caught:
        History.open(postgres.url(database, password="wrong/hunter2"))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Unreachable, match="no such database") as caught:
        History.open(postgres.url("nowhere", password=PASSWORD))
    assert PASSWORD not in str(caught.value)


def test_a_question_makes_no_tables_on_a_server(postgres: Postgres) -> None:
    database = postgres.new_database()
    with pytest.raises(Unreachable, match="there is no history in"):
        History.open(postgres.url(database, password=PASSWORD), create=False)
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database) == "0"


def test_a_user_without_rights_can_read_and_is_told_so(postgres: Postgres) -> None:
    database = postgres.new_database()
    with History.open(postgres.url(database, password=PASSWORD)) as history:
        history.put(run())
    user = f"reader_{database}"
    postgres.execute(
        f"CREATE USER {user} PASSWORD 'x'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}", database
    )
    with History.open(postgres.url(database, user=user, password="x")) as history:
        assert history.class_history(CLASS, PROFILE).total == 1
        with pytest.raises(ReadOnly, match="no right"):
            history.put(run(1))


def test_a_server_that_goes_away_is_an_error_of_the_history(postgres: Postgres) -> None:
    database = postgres.new_database()
    with History.open(postgres.url(database, password=PASSWORD)) as history:
        history.put(run())
        others = f"pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        postgres.execute(f"SELECT count(pg_terminate_backend(pid)) FROM {others}", database)
        with pytest.raises(HistoryError):
            history.runs()
        assert history.put(run(1))


def test_without_the_library_the_extra_is_named(file: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['psycopg'] = None\n"
        "from rankmuster.store.history import History\n"
        "History.open('postgresql://user@host/db')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "pip install 'rankmuster[postgres]'" in done.stderr.splitlines()[-1]
