"""What is known of an incarnation when nothing of it lives: who belonged to it, where each wrote, how it ended."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.model.run_record import Life, Member, Record
from rankmuster.supervise.record import read
from supervised_run import SECONDS, Run, alive, until

Start = Callable[..., Run]

RANKS = """
for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 bash -c 'echo $$ > rank$RANK; sleep 1000; :' > out$r 2>&1 & done
(RANK=0 WORLD_SIZE=2 bash -c '(echo $BASHPID > orphan; exec sleep 1000) &')
exec sleep 1000
"""
SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"


def of(made: Run) -> Record:
    until(lambda: (made.folder / f"{made.name}.json").exists())
    found = read(made.folder / f"{made.name}.json")
    assert found is not None
    return found


def life(made: Run) -> Life:
    until(lambda: of(made).life is not None)  # the record begins with the first start
    found = of(made).life
    assert found is not None
    return found


def member(made: Run, pid: int) -> Member:
    return next(one for one in life(made).members if one.pid == pid)


def ranked(made: Run) -> dict[int, int]:
    """Pid by rank."""
    return {one.rank: one.pid for one in life(made).members if one.rank is not None}


def test_ranks_are_told_from_what_they_have_started_and_their_output_is_known(run: Start, tmp_path: Path) -> None:
    made = run(
        "bash", "-c", RANKS, options=("--on-end", "wait"), environ={"NCCL_DEBUG_FILE": "/tmp/x/%p", "KEY": SECRET}
    )
    pids = {0: made.pid_of("rank0"), 1: made.pid_of("rank1")}
    orphan = made.pid_of("orphan")
    until(lambda: ranked(made) == pids and any(one.pid == orphan for one in life(made).members))
    assert member(made, pids[1]).outputs == (str(tmp_path / "out1"),)
    assert member(made, pids[1]).local_rank == 1
    assert member(made, pids[1]).world == 2
    assert life(made).environment["NCCL_DEBUG_FILE"] == "/tmp/x/%p"
    record = made.folder / f"{made.name}.json"
    assert SECRET not in record.read_text(encoding="ascii")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    os.kill(orphan, signal.SIGUSR1)  # an orphan comes to the supervisor, so how it ended is known
    until(lambda: member(made, orphan).exit_code is not None)
    assert member(made, orphan).exit_code == -signal.SIGUSR1
    assert member(made, orphan).signalled is None


def test_a_rank_that_its_launcher_collects_is_only_known_to_be_gone(run: Start) -> None:
    made = run(
        "bash", "-c", f"RANK=0 WORLD_SIZE=1 sleep 1000 & wait; exec {sys.executable} -c 'import time; time.sleep(1000)'"
    )
    until(lambda: 0 in ranked(made))
    pid = ranked(made)[0]
    os.kill(pid, signal.SIGKILL)
    until(lambda: member(made, pid).gone is not None)
    gone = member(made, pid)
    assert gone.exit_code is None
    assert gone.alive is not None
    assert gone.gone is not None
    assert gone.alive <= gone.gone


def test_what_the_supervisor_itself_ended_is_its_own_doing(run: Start) -> None:
    made = run("bash", "-c", "(RANK=0 WORLD_SIZE=1 sleep 1000 &); exec sleep 1000", options=("--on-end", "wait"))
    until(lambda: 0 in ranked(made))
    launcher = of(made).launcher
    assert launcher is not None
    os.kill(launcher.pid, signal.SIGKILL)
    until(lambda: of(made).ended)
    assert of(made).ended_by_itself
    assert life(made).ended_by == ""
    assert life(made).ended is not None
    assert member(made, launcher.pid).exit_code == -signal.SIGKILL
    assert member(made, launcher.pid).signalled is None
    assert member(made, ranked(made)[0]).signalled == signal.SIGTERM


def test_who_had_it_ended_is_remembered(run: Start) -> None:
    made = run("sleep", "1000", options=("--on-end", "wait"))
    made.client.terminate(made.running().incarnation, "i1/terminate/group", Deadline.after(SECONDS))
    assert "i1/terminate/group" in life(made).ended_by
    second = run("sleep", "1000", name="second")
    second.running()
    second.process.send_signal(signal.SIGTERM)
    second.ended()
    assert life(second).ended_by.startswith("SIGTERM to the supervisor")


def test_the_log_of_an_incarnation_begins_where_the_one_before_ended(run: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"of another day\n")
    made = run("bash", "-c", "echo hello; exec sleep 1000", options=("--log", str(log), "--on-end", "wait"))
    until(lambda: b"hello" in log.read_bytes())
    assert life(made).log == str(log)
    assert life(made).offset == len(b"of another day\n")
    assert life(made).log_inode == log.stat().st_ino


def test_a_command_that_is_not_found_has_a_life_too(run: Start) -> None:
    made = run("/nowhere/at-all")
    assert made.ended() == 127
    assert of(made).ended
    assert "not begun" in life(made).ended_by


def test_processes_that_come_and_go_do_not_pile_up(run: Start) -> None:
    made = run("bash", "-c", "for i in $(seq 400); do sleep 0.001; done; echo $$ > done; exec sleep 1000")
    pid = made.pid_of("done")
    until(lambda: len(life(made).members) >= 1)
    assert len(life(made).members) < 200
    assert alive(pid)
