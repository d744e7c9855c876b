"""Stacks of live processes, which are neither stopped nor woken, and never the ones of a healthy instance."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Store
from rankmuster.collect.stacks import Stacks, plain
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import Progress
from rankmuster.model.frameworklog import ThreadStack
from rankmuster.model.node import KernelTask

PROGRAM = """
import sys, threading
def waits_here():
    sys.stdout.write("ready\\n"); sys.stdout.flush()
    threading.Event().wait(60)
waits_here()
"""
STOPPED = Assessment(Progress.STOPPED, None, True, False, "nothing moves")
HEALTHY = Assessment(Progress.IDLE, None, False, True, "no request is running.")
SECRET = "sk-very-secret-1234567890abcdef"

needs_pyspy = pytest.mark.skipif(
    importlib.util.find_spec("py_spy") is None and not (Path(sys.executable).with_name("py-spy").exists()),
    reason="py-spy is not installed (pip install '.[real]')",
)


def process_of(child: subprocess.Popen[bytes], **fields: object) -> ProcessOfInstance:
    ticks = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    values: dict[str, object] = {
        "pid": child.pid,
        "inner_pid": 37,
        "host_pid": None,
        "start_ticks": ticks,
        "started_at": time.time(),
        "role": Role.WORKER,
        "name": "python",
        "rank": 3,
        "uid": os.geteuid(),
        **fields,
    }
    return ProcessOfInstance(**values)  # type: ignore[arg-type]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, f"--api-key\n={SECRET}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    until = time.monotonic() + 10
    while state(process) != "S" and time.monotonic() < until:  # it says so just before it waits
        time.sleep(0.005)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "bundle")


def collect(
    store: Store,
    *processes: ProcessOfInstance,
    wishes: Wishes | None = None,
    assessment: Assessment | None = STOPPED,
    machine: Machine | None = None,
    seconds: float = 30.0,
) -> tuple[Outcome, dict[str, bytes]]:
    scene = Scene(Target("llm-0", "a7", processes), machine or Machine(hostname="a7"), wishes or Wishes())
    if assessment is not None:
        scene.board.post_assessment(assessment)
    outcome = Stacks().collect(scene, store.sink("stacks"), Deadline.after(seconds))
    return outcome, {piece.path: (store.folder / piece.path).read_bytes() for piece in store.pieces()}


def stacks(taken: dict[str, bytes]) -> list[ThreadStack]:
    return list(gather(Blob(path, data) for path, data in taken.items()).of(ThreadStack))


def state(child: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def may_read(child: subprocess.Popen[bytes]) -> bool:
    """Whether this machine lets one process read another's memory at all."""
    try:
        with open(f"/proc/{child.pid}/mem", "rb"):
            return True
    except OSError:
        return False


@needs_pyspy
def test_a_worker_s_stack_with_its_rank_and_own_number(store: Store, child: subprocess.Popen[bytes]) -> None:
    if not may_read(child):
        pytest.skip("tracing is forbidden here")
    outcome, taken = collect(store, process_of(child))
    assert outcome.ending is Ending.DONE, outcome
    assert list(taken) == ["logs/stacks-37-rank_3.txt"]
    [stack] = stacks(taken)
    assert (stack.tool, stack.origin.rank, stack.origin.pid) == ("py-spy", 3, 37)
    assert any("waits_here" in frame for frame in stack.frames)
    assert SECRET not in taken["logs/stacks-37-rank_3.txt"].decode()
    [piece] = store.pieces()
    assert (piece.rank, piece.host) == (3, "a7")


@needs_pyspy
def test_a_frozen_process_stays_frozen_and_tells_its_stack(store: Store, child: subprocess.Popen[bytes]) -> None:
    if not may_read(child):
        pytest.skip("tracing is forbidden here")
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    outcome, taken = collect(store, process_of(child))
    assert state(child) == "T"
    child.send_signal(signal.SIGCONT)
    assert outcome.ending is Ending.DONE, outcome
    assert any("waits_here" in frame for frame in stacks(taken)[0].frames)


@needs_pyspy
def test_what_is_no_python_has_the_kernels_view(store: Store) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        outcome, taken = collect(store, process_of(sleeper))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert outcome.ending is Ending.PARTIAL, outcome
    assert "py-spy" in outcome.note
    assert stacks(taken) == []


def test_a_healthy_instance_is_left_alone(store: Store, child: subprocess.Popen[bytes]) -> None:
    outcome, taken = collect(store, process_of(child), assessment=HEALTHY)
    assert (outcome.ending, taken) == (Ending.DECLINED, {})
    assert "no request is running" in outcome.note


def test_stacks_that_nobody_wants(store: Store, child: subprocess.Popen[bytes]) -> None:
    outcome, taken = collect(store, process_of(child), wishes=Wishes(stacks=False))
    assert (outcome.ending, taken) == (Ending.DECLINED, {})


def test_a_confirmed_stop_waits_for_no_assessment(store: Store, child: subprocess.Popen[bytes]) -> None:
    begun = time.monotonic()
    collect(store, process_of(child), wishes=Wishes(stop_confirmed=True), assessment=None, seconds=60)
    assert time.monotonic() - begun < 30


def through_another_proc(tmp_path: Path) -> Machine:
    """The same processes, seen as a sidecar sees its host's."""
    (tmp_path / "host-proc").symlink_to("/proc")
    return Machine(hostname="a7", proc=tmp_path / "host-proc")


def test_the_processes_of_another_proc_are_not_mistaken(
    store: Store, child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    outcome, taken = collect(store, process_of(child), machine=through_another_proc(tmp_path))
    assert outcome.ending is Ending.PARTIAL
    assert "the kernel's view of 1 instead" in outcome.note
    [text] = taken.values()
    assert b"task %d" % child.pid in text
    assert b"state=S" in text


def test_the_kernels_view_is_read_as_that_and_as_nothing_else(
    store: Store, child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    _, taken = collect(store, process_of(child), machine=through_another_proc(tmp_path))
    assert set(gather(Blob(path, data) for path, data in taken.items()).by_type) == {KernelTask}


def test_a_process_that_has_ended(store: Store, child: subprocess.Popen[bytes]) -> None:
    process = process_of(child)
    child.kill()
    child.wait()
    outcome, taken = collect(store, process)
    assert (outcome.ending, taken) == (Ending.NOTHING, {})


def test_a_pid_that_went_to_another_process(store: Store, child: subprocess.Popen[bytes]) -> None:
    outcome, taken = collect(store, process_of(child, start_ticks=1))
    assert (outcome.ending, taken) == (Ending.NOTHING, {})


def test_another_users_process(store: Store, child: subprocess.Popen[bytes]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look at everybody's")
    outcome, taken = collect(store, process_of(child, uid=os.geteuid() + 1))
    assert (outcome.ending, taken) == (Ending.DENIED, {})


def test_no_instance(tmp_path: Path) -> None:
    scene = Scene(None, Machine(), Wishes())
    outcome = Stacks().collect(scene, Store(tmp_path).sink("stacks"), Deadline.after(1))
    assert outcome.ending is Ending.NOTHING


def test_a_py_spy_that_hangs_is_ended(
    store: Store, child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "py-spy"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake.with_name("python")))
    begun = time.monotonic()
    outcome, _ = collect(store, process_of(child), seconds=1.0)
    assert time.monotonic() - begun < 20
    assert outcome.ending in (Ending.PARTIAL, Ending.FAILED)


@pytest.mark.parametrize("said", ["Permission Denied: Try running again", "    1: Permission denied (os error 13)"])
def test_a_py_spy_without_permission_says_what_to_do(
    store: Store, child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    fake = tmp_path / "bin" / "py-spy"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake.with_name("python")))
    outcome, _ = collect(store, process_of(child))
    assert "CAP_SYS_PTRACE" in outcome.note


def test_a_command_line_of_several_lines_is_cut_off() -> None:
    process = ProcessOfInstance(9, 4, None, 1, 0.0, Role.WORKER, "VLLM::Worker\nTP0")
    output = f'Process 9: python -c\nimport x --key {SECRET}\nPython v3.12\n\nThread 9 (idle): "a"\n'.encode()
    assert plain(output, process) == b'Process 4: VLLM::Worker?TP0\nPython v3.12\n\nThread 9 (idle): "a"\n'
    assert plain(b"Process 9: " + SECRET.encode(), process) == b"Process 4: VLLM::Worker?TP0\n"


@needs_pyspy
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a pid namespace")
def test_py_spy_is_not_sent_to_another_namespace_s_number() -> None:
    # A /proc of the host seen from a pid namespace of one's own: the number is a stranger's where py-spy would look.
    code = (
        "from pathlib import Path; from rankmuster.collect.stacks import _find_pyspy; print(_find_pyspy(Path('/proc')))"
    )
    done = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", code], capture_output=True, text=True, timeout=30
    )
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.startswith("(None, "), done
    assert "another pid namespace" in done.stdout
