"""Processes are looked at as `collect` looks at them, cheaply, and what cannot be seen is no death."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.facts import instance_facts
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.node_facts import NodeFacts
from rankmuster.collect.proc import Proc
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes
from rankmuster.evidence.bundle import load
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.node import NodeState, TaskState
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.progress.window import Window
from rankmuster.watch.signals.processes import MAX_TASKS, ProcessSignal, facts_of, looked_at
from rankmuster.watch.signals.signal import Failed


@pytest.fixture
def ranks():
    """Two real processes that sleep."""
    code = "import sys, time; print(flush=True); time.sleep(60)"
    made = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    for one in made:
        one.stdout.readline()
    yield made
    for one in made:
        one.kill()
        one.wait()
        one.stdout.close()


def target_of(*pids: int, **more) -> Target:
    proc = Proc(Path("/proc"))
    processes = tuple(
        ProcessOfInstance(
            pid=pid,
            inner_pid=pid + 1_000_000,
            host_pid=None,
            start_ticks=proc.stat(pid).start_ticks,
            started_at=1.7e9,
            role=Role.WORKER,
            name=f"VLLM::Worker_TP{rank}",
            rank=rank,
            environ={"NCCL_DEBUG": "INFO", "API_TOKEN": "secret"},
        )
        for rank, pid in enumerate(pids)
    )
    return Target("llm-0", "node1", processes, incarnation="a", world_size=len(pids), **more)


def said(source: ProcessSignal, seconds: float = 5.0):
    return list(source.poll(Deadline.after(seconds)))


def state_of(source: ProcessSignal) -> NodeState:
    (found,) = [one.observation for one in said(source) if isinstance(one.observation, NodeState)]
    return found


def until(source: ProcessSignal, wanted) -> NodeState:
    end = time.monotonic() + 20
    while not wanted(state := state_of(source)):
        assert time.monotonic() < end, state
        time.sleep(0.01)
    return state


def test_ranks_that_run_stop_and_die_are_told_apart(ranks):
    source = ProcessSignal(target_of(*(one.pid for one in ranks)), Machine(), 5.0)
    state = state_of(source)
    assert (state.host, len(state.looks)) == ("node1", 1)
    assert [(task.rank, task.role) for task in state.tasks] == [(0, "worker"), (1, "worker")]
    assert [task.pid - 1_000_000 for task in state.tasks] == [one.pid for one in ranks]
    assert all(task.looks[0].cpu_seconds is not None for task in state.tasks)
    os.kill(ranks[0].pid, signal.SIGSTOP)
    until(source, lambda now: now.tasks[0].looks[0].state is TaskState.STOPPED)
    ranks[1].kill()
    dead = until(source, lambda now: now.tasks[1].looks[0].state is TaskState.ZOMBIE).tasks[1]
    assert dead.exit_code == -9
    ranks[1].wait()
    gone = until(source, lambda now: now.tasks[1].looks[0].state is TaskState.GONE).tasks[1]
    assert gone.exit_code == -9  # seen before it was reaped


def test_a_look_is_what_collect_would_have_seen(ranks, tmp_path):
    target = target_of(*(one.pid for one in ranks))
    store = Store(tmp_path / "b")
    scene = Scene(target, Machine(hostname="node1"), Wishes(look_seconds=0.0))
    NodeFacts(environment={}).collect(scene, store.sink("platform"), Deadline.after(10))
    (kept,) = load(store.folder).of(NodeState)
    now = state_of(ProcessSignal(target, Machine(), 5.0))
    assert now.host == kept.host
    for ours, theirs in zip(now.tasks, kept.tasks, strict=True):
        assert (ours.pid, ours.rank, ours.role, ours.name) == (theirs.pid, theirs.rank, theirs.role, theirs.name)
        assert (ours.exit_code, ours.threads) == (theirs.exit_code, theirs.threads)
        assert ours.looks[0].state is theirs.looks[-1].state
        assert ours.looks[0].cpu_seconds == pytest.approx(theirs.looks[-1].cpu_seconds, abs=0.1)


def test_the_instance_is_described_first_and_again_when_it_changes(ranks, tmp_path):
    target = target_of(*(one.pid for one in ranks))
    source = ProcessSignal(target, Machine(), 5.0, now=lambda: 1.8e9)
    facts, state = said(source)
    assert isinstance(facts.observation, InstanceFacts)
    assert isinstance(state.observation, NodeState)
    assert facts.plane is state.plane is Plane.PLATFORM
    assert (facts.observation.instance, facts.observation.incarnation) == ("llm-0", "a")
    assert facts.observation.environment == {"NCCL_DEBUG": "INFO"}
    (tmp_path / "instance.json").write_text(json.dumps(instance_facts(target, 1.8e9)))
    (kept,) = load(tmp_path).of(InstanceFacts)
    assert replace(kept, source=facts.observation.source) == facts.observation
    assert len(said(source)) == 1
    source.retarget(replace(target, incarnation="b"))
    again = said(source)
    assert [type(one.observation) for one in again] == [InstanceFacts, NodeState]
    window = Window(WatchSettings())
    for one in (facts, state, *again):
        window.feed(one.now, one.unix, one.observation, one.plane)
    assert window.incarnations == 2


def fake(folder: Path, pid: int, *, state: str = "S", ticks: int = 5, threads: int = 1, exit_status: int = 0) -> None:
    fields = [state, 1, pid, pid, 0, -1, 4194560, 0, 0, 0, 0, 5, 5, 0, 0, 20, 0, threads, 0, ticks, *([0] * 29)]
    (folder / str(pid)).mkdir(exist_ok=True)
    line = f"{pid} (a ) b\n) " + " ".join(map(str, [*fields, exit_status]))
    (folder / str(pid) / "stat").write_text(line)


def on_fake(folder: Path, *pids: int) -> ProcessSignal:
    for pid in pids:
        fake(folder, pid)
    base = target_of(os.getpid()).processes[0]
    processes = tuple(replace(base, pid=pid, inner_pid=pid, start_ticks=5, rank=n) for n, pid in enumerate(pids))
    return ProcessSignal(Target("llm-0", "node1", processes), Machine(proc=folder), 5.0)


def test_a_number_that_another_process_has_is_gone(tmp_path):
    source = on_fake(tmp_path, 7, 8)
    fake(tmp_path, 8, ticks=6)
    assert [task.looks[0].state for task in state_of(source).tasks] == [TaskState.SLEEPING, TaskState.GONE]


def test_a_main_thread_that_ended_while_others_go_on_is_no_dead_process(tmp_path):
    source = on_fake(tmp_path, 7)
    fake(tmp_path, 7, state="Z", threads=12)
    (task,) = state_of(source).tasks
    assert (task.looks[0].state, task.exit_code) == (TaskState.SLEEPING, None)


def test_of_a_process_that_the_kernel_keeps_it_is_said_where_it_waits(tmp_path):
    source = on_fake(tmp_path, 7)
    fake(tmp_path, 7, state="D")
    (tmp_path / "7" / "status").write_text("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n")
    (tmp_path / "7" / "wchan").write_text("nvidia_ioctl")
    (look,) = state_of(source).tasks[0].looks
    assert (look.state, look.wait_channel, look.switches) == (TaskState.UNINTERRUPTIBLE, "nvidia_ioctl", 12)


@pytest.mark.parametrize("data", [b"", b"\xff" * 5000, b"7 (x) S", b"7 (x) S 1 2 three", b"7 x S " * 40])
def test_a_stat_that_cannot_be_read_raises_nothing(tmp_path, data):
    source = on_fake(tmp_path, 7, 8)
    (tmp_path / "7" / "stat").write_bytes(data)
    assert state_of(source).tasks[1].looks[0].state is TaskState.SLEEPING


def test_a_fifo_or_a_folder_in_place_of_a_stat_holds_nobody_up(tmp_path):
    source = on_fake(tmp_path, 7, 8, 9)
    (tmp_path / "7" / "stat").unlink()
    os.mkfifo(tmp_path / "7" / "stat")
    (tmp_path / "8" / "stat").unlink()
    (tmp_path / "8" / "stat").mkdir()
    assert state_of(source).tasks[2].looks[0].state is TaskState.SLEEPING


def test_a_proc_that_lists_nothing_is_blindness_and_no_death(tmp_path):
    source = on_fake(tmp_path, 7, 8)
    said(source)
    for pid in (7, 8):
        shutil.rmtree(tmp_path / str(pid))
    (failed,) = said(source)
    assert isinstance(failed, Failed)
    assert failed.plane is Plane.PLATFORM
    fake(tmp_path, 1)
    assert {task.looks[0].state for task in state_of(source).tasks} == {TaskState.GONE}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_blindness_and_no_death(tmp_path):
    source = on_fake(tmp_path, 7)
    said(source)
    (tmp_path / "7" / "stat").chmod(0)
    (failed,) = said(source)
    assert isinstance(failed, Failed)


def test_ranks_are_looked_at_before_a_hundred_helpers(tmp_path):
    base = target_of(os.getpid()).processes[0]
    helpers = tuple(replace(base, pid=10 + n, role=Role.HELPER, rank=None) for n in range(500))
    looked = looked_at(Target("llm-0", "node1", (*helpers, base, replace(base, role=Role.SERVER, rank=None))))
    assert len(looked) == MAX_TASKS
    assert [process.role for process in looked[:3]] == [Role.WORKER, Role.SERVER, Role.HELPER]


def test_no_process_at_all_says_nothing_of_any():
    source = ProcessSignal(Target("llm-0", "node1", ()), Machine(), 5.0)
    assert [type(one.observation) for one in said(source)] == [InstanceFacts]
    assert facts_of(Target("a\udcffb", "h", ()), 1.0).instance is not None


def test_a_deadline_that_has_passed_ends_the_look(ranks):
    source = ProcessSignal(target_of(*(one.pid for one in ranks)), Machine(), 5.0)
    assert not [one for one in said(source, -1.0) if isinstance(one.observation, NodeState)]
