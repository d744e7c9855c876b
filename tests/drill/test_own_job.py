"""A user's own job as a target: real processes, of which one may be hit, and only where all of them allow it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from drill_helpers import PATIENCE, until

from journal_contract import closed, opening
from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request
from rankmuster.collect.look_for import look_for
from rankmuster.collect.machine import Machine
from rankmuster.drill.apart import ALLOWED
from rankmuster.drill.faults import FAULTS
from rankmuster.drill.own_chain import OwnOrder, run_own, run_quiet
from rankmuster.drill.own_hold import Held
from rankmuster.drill.own_job import NotAllowedHere, check, victim_of
from rankmuster.drill.own_watch import NoWatch, OwnWatch, incident_since
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Event, EventKind, Step
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
            process = start(name, rank, **({} if said is None else {ALLOWED: said}))
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
        with pytest.raises(NotAllowedHere, match="there is no rank 1 here"):
            held.send(signal.SIGSTOP)
        assert not held.sent


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
    assert f"process(es) {ranks[2].pid} of '{name}' have no {ALLOWED}" in str(refused.value)
    assert f"start the job with {ALLOWED}={name}" in str(refused.value)


WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen(["/bin/sleep", "600"], env={"PATH": "/bin"})
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


def test_a_program_that_a_rank_started_without_the_marker_forbids_it() -> None:
    name = f"own-{uuid.uuid4().hex[:8]}"
    variables = {"RANKMUSTER_INSTANCE": name, ALLOWED: name, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    rank = subprocess.Popen(
        [sys.executable, "-c", WITH_CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    )
    try:
        assert rank.stdout is not None
        child = int(rank.stdout.readline())
        with pytest.raises(NotAllowedHere, match=rf"process\(es\) {child} of .* have no {ALLOWED}"):
            victim_of(name, 0)
    finally:
        rank.communicate(timeout=PATIENCE)


def test_what_the_finder_thinks_a_process_allows_or_whose_it_is_allows_nothing() -> None:
    """It takes a parent's variables for a process that has none, and user 0 for one that it did not ask."""
    with job({2: None}) as (name, ranks):
        sought = look_for(Machine(), Request(instance=name), now=time.time(), deadline=Deadline.after(20))
        assert sought.target is not None
        said = [replace(one, environ={ALLOWED: name}, uid=os.geteuid()) for one in sought.target.processes]
        with pytest.raises(NotAllowedHere, match=rf"process\(es\) {ranks[2].pid} of .* have no {ALLOWED}"):
            check(replace(sought.target, processes=tuple(said)), os.geteuid())
        unlooked = [replace(one, uid=os.geteuid() + 1) for one in said]
        with pytest.raises(NotAllowedHere, match="run the drill as the user whose job it is"):
            check(replace(sought.target, processes=tuple(unlooked)), os.geteuid() + 1)


def test_nothing_is_read_below_another_proc_than_the_processes_own(tmp_path: Path) -> None:
    with job() as (name, _):
        sought = look_for(Machine(), Request(instance=name), now=time.time(), deadline=Deadline.after(20))
        assert sought.target is not None
        with pytest.raises(NotAllowedHere, match="SPT_NOENV=1"):
            check(sought.target, os.geteuid(), tmp_path)


def test_in_another_pid_namespace_nothing_is_held(tmp_path: Path) -> None:
    """Trees as another namespace's /proc has them: this program, or what it holds, has another number there."""
    with job() as (name, ranks):
        chosen, proc = victim_of(name, 1), tmp_path / "proc"
        (proc / "1" / "fdinfo").mkdir(parents=True)
        (proc / "self").symlink_to("1")
        with pytest.raises(NotAllowedHere, match="is of another pid namespace"), Held(chosen, Machine(proc=proc)):
            pytest.fail("it was held")
        (proc / "1").rename(proc / f"{os.getpid()}")
        (proc / "self").unlink()
        (proc / "self").symlink_to(f"{os.getpid()}")
        (proc / f"{chosen.pid}").symlink_to(f"/proc/{chosen.pid}")
        for number in range(256):
            (proc / "self" / "fdinfo" / f"{number}").write_text(f"pos:\t0\nPid:\t{chosen.pid}\nNSpid:\t7\t1\n")
        with pytest.raises(NotAllowedHere, match=r"is not what .* shows"), Held(chosen, Machine(proc=proc)):
            pytest.fail("it was held")
        assert ranks[1].poll() is None


def test_what_changed_since_the_first_look_is_found_right_before_the_signal() -> None:
    with job() as (name, ranks):
        chosen = victim_of(name, 1)
        with Held(replace(chosen, command=("another",))) as held:
            with pytest.raises(NotAllowedHere, match="another program than at first"):
                held.send(signal.SIGKILL)
            assert not held.sent
        with Held(replace(chosen, rank=2)) as held, pytest.raises(NotAllowedHere, match="is now pid"):
            held.send(signal.SIGKILL)
        late = start(name, 3)
        try:
            with Held(chosen) as held, pytest.raises(NotAllowedHere, match=f"{late.pid} of .* have no {ALLOWED}"):
                held.send(signal.SIGKILL)
        finally:
            late.kill()
            late.communicate()
        assert [one.poll() for one in ranks] == [None] * 3


HOLDER = """
import signal, sys, time
from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.drill.own_hold import Held
from rankmuster.drill.own_job import victim_of
with as_ctrl_c(), Held(victim_of(sys.argv[1], 1)) as held:
    held.send(signal.SIGSTOP)
    print("sent", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("ending", [(signal.SIGKILL,), (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)])
def test_a_drill_that_is_killed_leaves_no_rank_frozen(ending: tuple[signal.Signals, ...]) -> None:
    with job() as (name, ranks):
        drill = subprocess.Popen(
            [sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert drill.stdout is not None
            assert drill.stdout.readline() == b"sent\n"
            until(lambda: state_of(ranks[1].pid) == "T", "stopped")
            for number in ending:
                drill.send_signal(number)
            end = time.monotonic() + 2.0
            while state_of(ranks[1].pid) == "T":
                assert time.monotonic() < end, "it is frozen still"
                time.sleep(0.01)
        finally:
            drill.kill()
            drill.communicate()


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
            process = start(name, 0, **{ALLOWED: name, "RANKMUSTER_INCARNATION": incarnation})
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
    process = start(name, None, **{ALLOWED: name})
    try:
        with pytest.raises(NotAllowedHere, match="says which rank it is"):
            victim_of(name, None)
    finally:
        process.kill()
        process.communicate()


# -- what the user's own watch and runbook say


def watched(
    folder: Path,
    name: str,
    state: Progress,
    *,
    event: str | None = None,
    at: float | None = None,
    host: str = Machine().hostname,
) -> None:
    now = time.time() if at is None else at
    view = InstanceView(name, state, now, "because", event=event)
    StateFile(folder).write(Snapshot(host, now, WatcherView("0.1.0", now, 5.0), (view,)))


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
    watched(tmp_path, "llm-0", Progress.ADVANCING, host="elsewhere")
    with pytest.raises(NoWatch, match="of the machine 'elsewhere'"):
        watch.must_be_well()
    watched(tmp_path, "llm-0", Progress.ADVANCING)
    assert watch.must_be_well().state is Progress.ADVANCING


def test_a_quiet_job_is_a_quiet_control_and_an_alarm_is_told(tmp_path: Path) -> None:
    with job() as (name, _):
        order = OwnOrder(tmp_path, None, 5.0, quiet_seconds=0.5)
        watched(tmp_path, name, Progress.ADVANCING)
        assert run_quiet(order, victim_of(name, 1)).right
        watched(tmp_path, name, Progress.ADVANCING, event="slow")
        row = run_quiet(order, victim_of(name, 1))
        assert row.alarms == ("slow: because",)
        assert not row.right


def seen_while_quiet(folder: Path, name: str, change: Callable[[], object], journal: str | None = None) -> DrillRun:
    """The control of a job of which something changes soon after it began."""
    watched(folder, name, Progress.ADVANCING)
    chosen = victim_of(name, 1)
    changing = threading.Timer(0.3, change)
    changing.start()
    try:
        return run_quiet(OwnOrder(folder, journal, 5.0, quiet_seconds=1.2), chosen)
    finally:
        changing.join()


def test_a_control_in_which_the_job_was_lost_sight_of_is_not_quiet(tmp_path: Path) -> None:
    with job() as (name, _):
        for change, says in (
            (lambda: watched(tmp_path, "llm-other", Progress.ADVANCING), "no longer said anything of the job"),
            (lambda: watched(tmp_path, name, Progress.UNKNOWN), "of a job that is well: unknown"),
            (lambda: watched(tmp_path, name, Progress.STARTING), "of a job that is well: starting"),
            (lambda: watched(tmp_path, name, Progress.STOPPED), "of a job that is well: stopped"),
            (lambda: watched(tmp_path, name, Progress.ADVANCING, at=time.time() - 600), "what follows is old"),
        ):
            row = seen_while_quiet(tmp_path, name, change)
            assert not row.right
            assert says in " ".join(row.wrongs)
        row = seen_while_quiet(tmp_path, name, lambda: None, str(tmp_path / "none.db"))
        assert "the journal cannot be read" in " ".join(row.wrongs)


@pytest.mark.parametrize("event", ["slow", "lost sight"])
def test_what_does_not_say_that_a_rank_ended_or_froze_tells_nothing(event: str, tmp_path: Path) -> None:
    with job() as (name, ranks):
        watched(tmp_path, name, Progress.ADVANCING)

        def answer() -> None:
            ranks[1].wait(PATIENCE)
            watched(tmp_path, name, Progress.UNKNOWN, event=event)

        answering = threading.Thread(target=answer)
        answering.start()
        order, rows = OwnOrder(tmp_path, None, 5.0, told_seconds=1.0), list[DrillRun]()
        run_own(order, FAULTS["kill"], victim_of(name, 1), tmp_path / "000-kill", tmp_path, rows.append)
        answering.join()
    assert [(row.made, row.detected) for row in rows] == [(True, False)]
    assert "it was not told" in rows[0].wrongs


def test_a_fault_that_was_made_is_kept_though_the_drill_is_interrupted(tmp_path: Path) -> None:
    with job() as (name, ranks):
        watched(tmp_path, name, Progress.ADVANCING)
        order, rows, chosen = OwnOrder(tmp_path, None, 5.0), list[DrillRun](), victim_of(name, 1)

        def interrupt() -> None:
            until(lambda: state_of(ranks[1].pid) == "T", "stopped")
            os.kill(os.getpid(), signal.SIGTERM)

        with as_ctrl_c():
            interrupting = threading.Thread(target=interrupt)
            interrupting.start()
            with pytest.raises(KeyboardInterrupt):
                run_own(order, FAULTS["freeze"], chosen, tmp_path / "000-freeze", tmp_path, rows.append)
        interrupting.join()
        until(lambda: state_of(ranks[1].pid) != "T", "going on")
    assert [(row.name, row.made) for row in rows] == [("freeze", True)]
    assert "broken off after the signal was sent: KeyboardInterrupt" in rows[0].wrongs


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
        rows: list[DrillRun] = []
        run_own(order, FAULTS["kill"], victim_of(name, 1), tmp_path / "000-kill", tmp_path, rows.append)
        answering.join()
        assert ranks[1].poll() == -signal.SIGKILL
        told = incident_since(place, name, begun)
    [row] = rows
    assert told is not None
    assert (told.outcome, told.count) == ("recovered", 1)
    assert (row.backend, row.expected_culprit, row.made) == ("own", 1, True)
    assert (row.detected, row.detected_by, row.service_back, row.incidents) == (True, "watch", True, 1)
    assert 0 <= (row.detected_seconds or -1.0) < PATIENCE
    assert row.evidence_saved is False
    assert "there is no verdict" in row.wrongs


@pytest.mark.parametrize("pipe", [True, False], ids=["cannot be copied", "interrupted"])
def test_a_fault_is_kept_whatever_becomes_of_its_bundle(pipe: bool, tmp_path: Path) -> None:
    """A pipe in a bundle cannot be copied; an interruption comes while the bundle is diagnosed again."""
    place, bundle, verdict = str(tmp_path / "incidents.db"), tmp_path / "bundle", tmp_path / "verdict.json"
    bundle.mkdir()
    (bundle / "manifest.json").write_text("{}")
    if pipe:
        os.mkfifo(bundle / "pipe")
    verdict.write_text('{"class": "process_or_device_lost"}')
    results = [
        Event(kind=EventKind.RESULT, at=time.time(), step=step, action="made", data={key: str(path)})
        for step, key, path in ((Step.EVIDENCE, "bundle", bundle), (Step.DIAGNOSE, "verdict", verdict))
    ]
    with job() as (name, ranks):
        watched(tmp_path, name, Progress.ADVANCING)
        recovered(place, name, time.time() - 500)

        def answer() -> None:
            ranks[1].wait(PATIENCE)
            watched(tmp_path, name, Progress.STOPPED, event="stopped")
            recovered(place, name, time.time(), *results)

        answering = threading.Thread(target=answer)
        answering.start()
        order, rows = OwnOrder(tmp_path, place, PATIENCE, told_seconds=PATIENCE), list[DrillRun]()

        def keep(row: DrillRun) -> None:
            if row.bundle is not None:
                raise KeyboardInterrupt
            rows.append(row)

        with nullcontext() if pipe else pytest.raises(KeyboardInterrupt):
            run_own(order, FAULTS["kill"], victim_of(name, 1), tmp_path / "000-kill", tmp_path, keep)
        answering.join()
    [row] = rows
    assert (row.made, row.said_class, row.bundle) == (True, "process_or_device_lost", None)
    says = f"the bundle {bundle} could not be copied" if pipe else "broken off after the signal was sent"
    assert says in " ".join(row.wrongs)


def recovered(place: str, name: str, at: float, *events: Event) -> None:
    """An incident that was opened then, and is over; `events` of it."""
    with Journal.open(place, create=True) as journal:
        incident, _ = journal.open_incident(opening(name, at), "runner-a")
        lease = journal.take_lease(name, "runner-a", 60.0)
        assert lease is not None
        for event in events:
            journal.append(incident, lease, event)
        journal.append(incident, lease, closed(at=at + 1))
        journal.release(lease)
