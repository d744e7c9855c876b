"""A user's own job as a target: real processes, of which one may be hit, and only where all of them allow it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from drill_helpers import PATIENCE, until

from journal_contract import closed, opening
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request
from rankmuster.collect.look_for import look_for
from rankmuster.collect.machine import Machine
from rankmuster.drill.faults import FAULTS
from rankmuster.drill.own_chain import OwnOrder, run_own, run_quiet
from rankmuster.drill.own_job import MARKER, Held, NotAllowedHere, Victim, check, victim_of
from rankmuster.drill.own_watch import NoWatch, OwnWatch, incident_since
from rankmuster.model.fault import Progress
from rankmuster.store.journal import Journal
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

RANK = "import sys; print('started', flush=True); sys.stdin.read()"


def start(name: str, rank: int | None, **more: str) -> subprocess.Popen[bytes]:
    own = {} if rank is None else {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3"}
    process = subprocess.Popen(
        [sys.executable, "-c", RANK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, "RANKMUSTER_INSTANCE": name, **own, **more},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    return process


@contextmanager
def job(
    allowed: Mapping[int, str | None] | None = None, count: int = 3
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """(its name, its ranks); each allows drills of it, but for what `allowed` says of a rank."""
    name = f"own-{uuid.uuid4().hex[:8]}"
    with ExitStack() as ends:
        ranks = []
        for rank in range(count):
            said = (allowed or {}).get(rank, name)
            process = start(name, rank, **({} if said is None else {MARKER: said}))
            ends.callback(process.communicate)
            ends.callback(process.kill)
            ranks.append(process)
        yield name, ranks


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_last_rank_but_one_is_hit_unless_another_is_named() -> None:
    with job() as (name, ranks):
        victim = victim_of(name, None)
        assert (victim.instance, victim.rank, victim.pid, victim.ranks) == (name, 1, ranks[1].pid, 3)
        assert set(victim.pids) == {one.pid for one in ranks}
        assert victim_of(name, 2).pid == ranks[2].pid
        with pytest.raises(NotAllowedHere, match=r"there is no rank 7 here; ranks of .* 0, 1, 2"):
            victim_of(name, 7)


def test_a_signal_reaches_that_process_and_no_other() -> None:
    with job() as (name, ranks):
        with Held(victim_of(name, 1)) as held:
            held.send(signal.SIGKILL)
            assert ranks[1].wait(10) == -signal.SIGKILL
        assert [one.poll() for one in ranks] == [None, -signal.SIGKILL, None]


def stopped_and_interrupted(name: str, pid: int) -> None:
    with Held(victim_of(name, 1)) as held:
        held.send(signal.SIGSTOP)
        until(lambda: state_of(pid) == "T", "stopped")
        raise KeyboardInterrupt


def test_what_was_stopped_goes_on_at_the_end_whatever_ends_it() -> None:
    with job() as (name, ranks):
        with pytest.raises(KeyboardInterrupt):
            stopped_and_interrupted(name, ranks[1].pid)
        until(lambda: state_of(ranks[1].pid) != "T", "going on")


def test_one_that_ended_while_it_was_held_gets_nothing() -> None:
    with job() as (name, ranks), Held(victim_of(name, 1)) as held:
        ranks[1].kill()
        ranks[1].wait(10)
        with pytest.raises(NotAllowedHere, match="could not be sent"):
            held.send(signal.SIGSTOP)


def test_a_number_that_is_another_process_by_now_is_not_hit() -> None:
    with job() as (name, ranks):
        victim = victim_of(name, 1)
        with (
            pytest.raises(NotAllowedHere, match="another process by now: nothing was sent"),
            Held(replace(victim, start_ticks=victim.start_ticks - 1)),
        ):
            pytest.fail("it was held")
        ranks[1].kill()
        ranks[1].wait(10)
        with pytest.raises(NotAllowedHere), Held(victim):
            pytest.fail("it was held")


def test_without_the_marker_in_every_process_nothing_is_done() -> None:
    with job({2: None}) as (name, ranks), pytest.raises(NotAllowedHere) as refused:
        victim_of(name, 1)
    assert f"process(es) {ranks[2].pid} of '{name}' have no {MARKER}" in str(refused.value)
    assert f"start the job with {MARKER}={name}" in str(refused.value)


def test_a_marker_of_another_instance_allows_nothing() -> None:
    with (
        job({0: "llm-0"}) as (name, _),
        pytest.raises(NotAllowedHere, match="allow drills of 'llm-0', another instance"),
    ):
        victim_of(name, 1)


@pytest.mark.parametrize("said", ["*", "1", "true", ""])
def test_no_other_word_is_a_marker(said: str) -> None:
    with job(dict.fromkeys(range(3), said)) as (name, _), pytest.raises(NotAllowedHere):
        victim_of(name, 1)


def test_an_instance_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotAllowedHere, match="there is no instance 'own-nowhere' on this node"):
        victim_of("own-nowhere", None)


def test_two_incarnations_at_a_time_are_two_instances() -> None:
    name = f"own-{uuid.uuid4().hex[:8]}"
    with ExitStack() as ends:
        for incarnation in ("a", "b"):
            process = start(name, 0, **{MARKER: name, "RANKMUSTER_INCARNATION": incarnation})
            ends.callback(process.communicate)
            ends.callback(process.kill)
        with pytest.raises(NotAllowedHere, match=f"{name}-pid"):
            victim_of(name, 0)


def test_processes_of_another_user_are_refused() -> None:
    with job() as (name, _):
        sought = look_for(Machine(), Request(instance=name), now=time.time(), deadline=Deadline.after(20))
        assert sought.target is not None
        check(sought.target, os.geteuid())
        with pytest.raises(NotAllowedHere, match="run the drill as the user whose job it is"):
            check(sought.target, os.geteuid() + 1)


def test_where_nobody_says_which_rank_it_is_nothing_is_done() -> None:
    name = f"own-{uuid.uuid4().hex[:8]}"
    process = start(name, None, **{MARKER: name})
    try:
        with pytest.raises(NotAllowedHere, match="says which rank it is"):
            victim_of(name, None)
    finally:
        process.kill()
        process.communicate()


# -- what the user's own watch and runbook say


def watched(folder: Path, name: str, state: Progress, *, event: str | None = None, at: float | None = None) -> None:
    now = time.time() if at is None else at
    view = InstanceView(name, state, now, "because", event=event)
    StateFile(folder).write(Snapshot("here", now, WatcherView("0.1.0", now, 5.0), (view,)))


def test_a_job_that_is_not_well_or_not_watched_is_no_target(tmp_path: Path) -> None:
    watch = OwnWatch(tmp_path, "llm-0")
    with pytest.raises(NoWatch, match="is `rankmuster watch` running"):
        watch.must_be_well()
    watched(tmp_path, "llm-1", Progress.ADVANCING)
    with pytest.raises(NoWatch, match="says nothing of 'llm-0'"):
        watch.must_be_well()
    watched(tmp_path, "llm-0", Progress.STOPPED)
    with pytest.raises(NoWatch, match="a drill is for an instance that is well"):
        watch.must_be_well()
    watched(tmp_path, "llm-0", Progress.ADVANCING, at=time.time() - 600)
    with pytest.raises(NoWatch, match="what follows is old"):
        watch.must_be_well()
    watched(tmp_path, "llm-0", Progress.ADVANCING)
    assert watch.must_be_well().state is Progress.ADVANCING


def victim(name: str, process: subprocess.Popen[bytes]) -> Victim:
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return Victim(name, 1, process.pid, ticks, "python", 3, (process.pid,))


def test_a_quiet_job_is_a_quiet_control_and_an_alarm_is_told(tmp_path: Path) -> None:
    with job() as (name, ranks):
        order = OwnOrder(tmp_path, None, 5.0, quiet_seconds=0.5)
        watched(tmp_path, name, Progress.ADVANCING)
        assert run_quiet(order, victim(name, ranks[1])).right
        watched(tmp_path, name, Progress.ADVANCING, event="slow")
        row = run_quiet(order, victim(name, ranks[1]))
        assert row.alarms == ("slow: because",)
        assert not row.right


def test_what_the_users_own_watch_and_journal_say_is_the_score(tmp_path: Path) -> None:
    """A watch and a runbook that answer as soon as the rank has ended; the journal has an earlier incident too."""
    place = str(tmp_path / "incidents.db")
    with job() as (name, ranks):
        recovered(place, name, time.time() - 500)
        watched(tmp_path, name, Progress.ADVANCING)

        def answer() -> None:
            ranks[1].wait(PATIENCE)
            watched(tmp_path, name, Progress.STOPPED, event="stopped")
            recovered(place, name, time.time())

        answering = threading.Thread(target=answer)
        answering.start()
        begun = time.time()
        order = OwnOrder(tmp_path, place, PATIENCE, told_seconds=PATIENCE)
        row = run_own(order, FAULTS["kill"], victim(name, ranks[1]), tmp_path / "000-kill", tmp_path)
        answering.join()
        assert ranks[1].poll() == -signal.SIGKILL
        told = incident_since(place, name, begun)
    assert told is not None
    assert (told.outcome, told.count) == ("recovered", 1)
    assert (row.backend, row.expected_culprit, row.made) == ("own", 1, True)
    assert (row.detected, row.detected_by, row.service_back, row.incidents) == (True, "watch", True, 1)
    assert 0 <= (row.detected_seconds or -1.0) < PATIENCE
    assert row.evidence_saved is False
    assert "there is no verdict" in row.wrongs


def recovered(place: str, name: str, at: float) -> None:
    """An incident that was opened then, and is over."""
    with Journal.open(place, create=True) as journal:
        incident, _ = journal.open_incident(opening(name, at), "runner-a")
        lease = journal.take_lease(name, "runner-a", 60.0)
        assert lease is not None
        journal.append(incident, lease, closed(at=at + 1))
        journal.release(lease)
