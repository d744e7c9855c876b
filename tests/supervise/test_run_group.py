"""Everything that the command starts belongs to it, and goes with it; nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc import Proc
from rankmuster.model.incident import Ending, GroupState
from supervised_run import SECONDS, Run, alive, until

Start = Callable[..., Run]

ESCAPES = """
echo $$ > launcher
(setsid bash -c 'echo $$ > session; exec sleep 1000' &)
setsid setsid bash -c '(echo $BASHPID > twice; exec sleep 1000) & exit' &
bash -c 'trap "" TERM; echo $$ > deaf; while :; do sleep 1000; done' &
env -i bash -c '(echo $BASHPID > bare; exec sleep 1000) & exit'
exec sleep 1000
"""

RENAMED = """
import ctypes, os, sys, time
if os.fork(): os._exit(0)
os.setsid()
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
begin, end = int(fields[47]), int(fields[48])  # env_start, env_end: what setproctitle writes over
ctypes.memset(begin, 0, end - begin)
ctypes.CDLL(None).prctl(15, b"VLLM::Worker", 0, 0, 0)
open("renamed", "w").write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


def test_whatever_it_started_is_ended_with_it(run: Start) -> None:
    made = run("bash", "-c", ESCAPES, options=("--grace", "0.3"))
    pids = {name: made.pid_of(name) for name in ("launcher", "session", "twice", "deaf", "bare")}
    seen = made.running()
    assert set(pids.values()) <= set(seen.pids)
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE, answer.note
    assert not [name for name, pid in pids.items() if alive(pid)]
    assert made.look().state is GroupState.ENDED
    assert not made.look().ended_by_itself


def test_a_title_written_over_its_variables_hides_nobody(run: Start) -> None:
    made = run("bash", "-c", f"{sys.executable} -c '{RENAMED}'; exec sleep 1000")
    pid = made.pid_of("renamed")
    assert "RANKMUSTER_INCARNATION" not in (Proc(Path("/proc")).environ(pid) or {})
    seen = made.running()
    assert pid in seen.pids
    made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert not alive(pid)


def test_a_frozen_rank_is_ended(run: Start) -> None:
    made = run("bash", "-c", "bash -c 'echo $$ > rank; sleep 1000' & wait")
    rank = made.pid_of("rank")
    os.kill(rank, signal.SIGSTOP)
    seen = made.running()
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE
    assert not alive(rank)


def test_one_that_multiplies_is_ended(run: Start) -> None:
    bomb = "f() { while :; do setsid bash -c 'sleep 0.2' & sleep 0.02; [ -e stop ] && exit; done; }; f & f & f & wait"
    made = run("bash", "-c", bomb, options=("--grace", "0.1"))
    seen = made.running()
    until(lambda: len(made.look().pids) > 10)
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    (made.work / "stop").touch()
    assert answer.ending is Ending.DONE, answer.note
    assert made.look().pids == ()


def test_one_that_answers_sigterm_with_more_of_itself_is_ended(run: Start) -> None:
    forks = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: [os.fork() for _ in range(2)])\n"
        "while not os.path.exists('stop'): time.sleep(0.01)"
    )
    made = run(sys.executable, "-c", forks, options=("--grace", "5"))
    seen = made.running()
    time.sleep(0.5)  # it has its handler by then
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    (made.work / "stop").touch()
    assert answer.ending is Ending.DONE, answer.note
    assert made.look().pids == ()


def test_hundreds_of_processes_are_ended(run: Start) -> None:
    made = run("bash", "-c", "for i in $(seq 400); do sleep 1000 & done; echo 1 > all; wait")
    made.pid_of("all")
    seen = made.running()
    assert len(seen.pids) == 401
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE, answer.note
    assert not [pid for pid in seen.pids if alive(pid)]


def test_what_ran_beside_it_before_is_not_touched(run: Start, tmp_path: Path) -> None:
    # an entry point starts a sidecar and then becomes the supervisor: the sidecar is its child
    folder = tmp_path / "f"
    command = (
        f"(echo $BASHPID > sidecar; sleep 1000 & echo $! > below; wait) & exec {sys.executable} -m rankmuster.cli.main "
        f"run --instance beside-{os.getpid()} --folder {folder} --profile none -- "
        "bash -c 'echo $$ > mine; exec sleep 1000'"
    )
    shell = subprocess.Popen(["bash", "-c", command], cwd=tmp_path)
    below = 0
    try:
        read = Run.__new__(Run)
        read.work = tmp_path
        mine, sidecar, below = (read.pid_of(name) for name in ("mine", "sidecar", "below"))
        os.kill(sidecar, signal.SIGKILL)  # what it leaves behind comes to the supervisor
        until(lambda: f"PPid:\t{shell.pid}\n" in Path(f"/proc/{below}/status").read_text())
        shell.send_signal(signal.SIGTERM)
        shell.wait(SECONDS)
        assert not alive(mine)
        assert alive(below)
    finally:
        shell.kill()
        shell.wait()
        if below:
            os.kill(below, signal.SIGKILL)


def test_nobody_outside_is_touched(run: Start) -> None:
    made = run("sleep", "1000")
    bystander = subprocess.Popen(["sleep", "1000"], env={**os.environ, "RANKMUSTER_INSTANCE": made.name})
    try:
        seen = made.running()
        made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
        assert bystander.poll() is None
        assert bystander.pid not in seen.pids
    finally:
        bystander.kill()
        bystander.wait()


def test_the_supervisor_is_no_part_of_the_instance(run: Start) -> None:
    environ = {"RANKMUSTER_INSTANCE": "other", "RANKMUSTER_INCARNATION": "x", "SLURM_PROCID": "0", "RANK": "0"}
    made = run("bash", "-c", "echo $$ > mine; exec sleep 1000", environ=environ)
    mine = made.pid_of("mine")
    seen = made.running()
    of_command = Proc(Path("/proc")).environ(mine) or {}
    assert of_command["RANKMUSTER_INSTANCE"] == made.name
    assert of_command["RANKMUSTER_INCARNATION"] == seen.incarnation
    assert of_command["SLURM_PROCID"] == "0"
    own = Proc(Path("/proc")).environ(made.process.pid) or {}
    assert not set(environ) & set(own)


def test_zombies_are_collected(run: Start) -> None:
    made = run("bash", "-c", "for i in $(seq 50); do (sleep 0.01 &) ; done; sleep 0.3; echo 1 > all; exec sleep 1000")
    made.pid_of("all")
    made.running()

    def zombies() -> list[int]:
        return [p for p in Proc(Path("/proc")).pids() if (s := Proc(Path("/proc")).stat(p)) and s.state == "Z"
                and s.parent == made.process.pid]  # fmt: skip

    until(lambda: not zombies())


def test_it_stays_small(run: Start) -> None:
    made = run("sleep", "1000")
    made.running()
    text = Path(f"/proc/{made.process.pid}/status").read_text(encoding="utf-8")
    kib = int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))
    assert kib < 40 << 10


def test_the_command_has_the_variables_it_was_given(run: Start) -> None:
    odd = {"ODD_ONE": "two\nlines = and \udcff", "LC_ALL": "C"}
    made = run("bash", "-c", "env -0 > seen", environ=odd)
    made.ended()
    seen = dict(one.split(b"=", 1) for one in (made.work / "seen").read_bytes().split(b"\0") if b"=" in one)
    assert seen[b"ODD_ONE"] == b"two\nlines = and \xff"
    assert b"LC_CTYPE" not in seen  # which an interpreter in between would set
    assert b"MALLOC_ARENA_MAX" not in seen
