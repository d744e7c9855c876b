"""Real processes: what the kernel shows of them, in this pid namespace and in another."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankmuster.collect.find.search import Request, find
from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Role, Target

PATIENCE = 20.0
"""Seconds in which a started process must be seen: far more than any machine needs."""

SERVER = """
import os, signal, subprocess, sys
sleep = sys.argv[1 + sys.argv.index("--sleep")]
workers = [subprocess.Popen(["VLLM::Worker_TP%d" % rank, "600"], executable=sleep, env={}) for rank in range(3)]
if "--kill" in sys.argv:
    # A worker's title is its 15 characters once it is dead.
    code = "import ctypes, os; ctypes.CDLL(None).prctl(15, b'VLLM::Worker_TP', 0, 0, 0); os.kill(os.getpid(), 9)"
    dead = subprocess.Popen([sys.executable, "-c", code])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
print("started", flush=True)
sys.stdin.read()
for worker in workers:
    worker.kill()
    worker.wait()
"""


@contextmanager
def started(command: list[str], **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs until the end of its stdin, and has said a first line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.defpath, **environ}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline()
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def server(folder: Path, *options: str) -> list[str]:
    script = folder / "vllm"
    script.write_text(SERVER)
    sleep = shutil.which("sleep")
    assert sleep is not None
    return [sys.executable, str(script), "serve", "m", "--sleep", sleep, *options]


def only(pid: int) -> Target:
    (target,) = find(Machine(), Request((pid,)), now=time.time()).targets
    return target


def pids(target: Target) -> set[int]:
    return {process.pid for process in target.processes}


def test_a_server_and_its_titled_workers(tmp_path: Path) -> None:
    marker = f"llm-{uuid.uuid4().hex[:8]}"
    with started(server(tmp_path, "-tp", "3", "--port", "18000"), RANKMUSTER_INSTANCE=marker, NCCL_DEBUG="INFO") as it:
        target = only(it.pid)
        by_name = find(Machine(), Request(instance=marker), now=time.time()).targets
        assert [process.rank for process in target.workers] == [0, 1, 2]
        assert all(process.parent == it.pid for process in target.workers)
        assert target.workers[0].environ["NCCL_DEBUG"] == "INFO"
        assert target.workers[0].inner_pid == target.workers[0].pid
        assert target.workers[0].root == Path("/")
        assert (target.name, target.world_size, target.engine) == (marker, 3, "vllm")
        assert target.nccl_loaded is False
        assert {process.role for process in target.processes if process.pid == it.pid} == {Role.SERVER}
        assert 0 <= time.time() - target.processes[0].started_at < 3600
        assert pids(only(target.workers[2].pid)) == pids(target)
        assert [pids(one) for one in by_name] == [pids(target)]
        assert os.getpid() not in {process.pid for process in target.processes}


def test_a_worker_killed_and_not_reaped(tmp_path: Path) -> None:
    with started(server(tmp_path, "-tp", "4", "--kill")) as it:
        target = only(it.pid)
    dead = target.workers[3]
    assert (dead.rank, dead.state, dead.exit_status) == (3, "Z", -signal.SIGKILL)


def test_ranks_from_variables_and_what_a_rank_starts() -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True);"
        "sys.stdin.read(); child.kill(); child.wait()"
    )
    port, run = str(10_000 + os.getpid() % 50_000), uuid.uuid4().hex
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": run}
    command = [sys.executable, "-c", code]
    with started(command, RANK="0", LOCAL_RANK="0", **common) as zero, started(command, RANK="1", **common) as one:
        target = only(one.pid)
        assert {process.rank: process.pid for process in target.workers} == {0: zero.pid, 1: one.pid}
        assert len(target.processes) == 4
        assert target.name == f"torchrun-{run}"


def front(folder: Path, *, listens: bool = True) -> list[str]:
    """A front end of one's own: says its port and listens there."""
    script = folder / "front.py"
    port = "int(sys.argv[sys.argv.index('--port') + 1])"
    bind = f"listening = socket.create_server(('127.0.0.1', {port})); " if listens else ""
    script.write_text(f"import socket, sys; {bind}print('up', flush=True); sys.stdin.read()\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    return [sys.executable, str(script), "--host", "127.0.0.1", "--port", str(number)]


def test_a_front_end_of_ones_own_serves_and_its_page_is_known(tmp_path: Path) -> None:
    marker = f"llm-{uuid.uuid4().hex[:8]}"
    command = front(tmp_path)
    with started(command, RANKMUSTER_INSTANCE=marker, WORLD_SIZE="4") as it:
        target = only(it.pid)
    assert [process.role for process in target.processes] == [Role.SERVER]
    assert target.metrics_urls == (f"http://127.0.0.1:{command[-1]}/metrics",)
    assert target.world_size == 4  # no rank lives to say it


def test_a_port_that_is_only_named_or_is_the_rendezvous_is_not_asked(tmp_path: Path) -> None:
    marker = f"llm-{uuid.uuid4().hex[:8]}"
    with started(front(tmp_path, listens=False), RANKMUSTER_INSTANCE=marker) as it:
        silent = only(it.pid)
    command = front(tmp_path)
    with started(command, RANKMUSTER_INSTANCE=marker, MASTER_PORT=command[-1]) as it:
        store = only(it.pid)
    with started(command, MASTER_ADDR="127.0.0.1") as it:
        unmarked = only(it.pid)
    assert [process.role for process in silent.processes] == [Role.HELPER]
    assert silent.metrics_urls == store.metrics_urls == unmarked.metrics_urls == ()


def test_a_pid_that_exits_is_said_to_have_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    found = find(Machine(), Request((gone.pid,)), now=time.time())
    assert found.targets == ()
    assert str(gone.pid) in found.notes[0]


def test_any_process_at_all_can_be_named() -> None:
    with started([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]) as it:
        target = only(it.pid)
        assert [process.pid for process in target.processes] == [it.pid]
        assert target.name == f"process-pid{it.pid}"


def _namespaces() -> bool:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _namespaces(), reason="making a pid namespace is not allowed here")
def test_a_process_in_a_namespace_of_its_own_knows_itself_by_another_pid() -> None:
    code = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    marker = uuid.uuid4().hex
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    with started(command, RANKMUSTER_INSTANCE=marker, RANK="0", WORLD_SIZE="1", MASTER_PORT="1"):
        (target,) = find(Machine(), Request(instance=marker), now=time.time()).targets
        (worker,) = target.workers
        assert worker.inner_pid == 1
        assert worker.pid != 1
        assert worker.root == Path(f"/proc/{worker.pid}/root")
        assert worker.outside("/etc").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of two users")
def test_another_users_variables_are_refused_and_that_is_said() -> None:
    reading, writing = os.pipe()
    with started([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"], SECRET="x") as it:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
            child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            found = find(Machine(), Request((it.pid,)), now=time.time())
            os.write(writing, "\n".join([str(len(found.targets)), *found.notes]).encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        count, *notes = answer.read().splitlines()
    assert count == "1"
    assert any(str(it.pid) in note and "do not let their environment be read" in note for note in notes)
    for note in notes:
        pids = re.findall(r"\d+", note.partition("(pids ")[2].partition(")")[0])
        assert len(set(pids)) == len(pids)
