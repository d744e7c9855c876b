"""Whole incidents over a journal in a real PostgreSQL, whose server is restarted or stands still in between."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import postgres_server
from incident_world import INSTANCE, opening
from rankmuster.incident.runner import Taken
from rankmuster.model.incident import Event, EventKind, Outcome, Step
from rankmuster.store.journal import Journal
from run_incident import Rig

pytestmark = pytest.mark.skipif(postgres_server.binaries() is None, reason="PostgreSQL is not installed")

STANDS_STILL = 3.0


@pytest.fixture(scope="module")
def server() -> Iterator[postgres_server.Postgres]:
    pytest.importorskip("psycopg")
    with postgres_server.server() as made:
        yield made


@pytest.fixture
def url(server: postgres_server.Postgres) -> str:
    return server.url(server.new_database(), password=postgres_server.PASSWORD)


def restart(server: postgres_server.Postgres) -> None:
    """As after a crash."""
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    command = [
        *as_user,
        str(server.binaries / "pg_ctl"),
        "-D",
        str(server.folder / "data"),
        "-m",
        "immediate",
        "-w",
        "restart",
    ]
    with (server.folder / "restart").open("ab") as output:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=60, cwd="/tmp")


def stand_still(server: postgres_server.Postgres) -> None:
    """All of the server's processes, for longer than a step has, and they go on by themselves."""
    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    pids = [postmaster, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    threading.Timer(STANDS_STILL, go_on).start()


@pytest.mark.parametrize("trouble", [restart, stand_still])
@pytest.mark.parametrize(
    ("kind", "step"),
    [(EventKind.INTENT, Step.TERMINATE), (EventKind.RESULT, Step.START), (EventKind.STEP_BEGUN, Step.RESTORE)],
)
def test_a_server_that_is_away_for_seconds_changes_nothing(
    tmp_path: Path,
    server: postgres_server.Postgres,
    url: str,
    trouble: Callable[..., None],
    kind: EventKind,
    step: Step,
) -> None:
    rig = Rig(tmp_path)
    left = [trouble]

    def told(event: Event) -> None:
        if event.kind is kind and event.step is step and left:
            left.pop()(server)

    with Journal.open(url) as journal:
        runner = rig.runner(journal, told=told)
        name = runner.open(opening())
        assert runner.run(name).closed is Outcome.RECOVERED
        closings = [one for one in journal.events(name) if one.kind is EventKind.CLOSED]
    assert not left
    assert len(closings) == 1
    assert (rig.world.state["terminated"], rig.world.state["starts"]) == (["inc-1"], ["inc-2"])


def test_of_runners_on_three_hosts_one_rebuilds_it(tmp_path: Path, url: str) -> None:
    rig = Rig(tmp_path)
    ended: list[object] = []

    def run(holder: str) -> None:
        with Journal.open(url) as journal:
            runner = rig.runner(journal, holder=holder)
            try:
                ended.append(runner.run(runner.open(opening())).closed)
            except Taken as error:
                ended.append(error)

    threads = [threading.Thread(target=run, args=(f"host-{number}:serve",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Outcome.RECOVERED in ended, ended
    assert (rig.world.state["terminated"], rig.world.state["starts"]) == (["inc-1"], ["inc-2"])
    with Journal.open(url) as journal:
        [head] = journal.incidents(instance=INSTANCE)
        assert head.outcome is Outcome.RECOVERED
