"""Real processes seen from outside: stopped, killed, busy, gone; and what the node gives away of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node_bench import HOST, Bench, target, worker

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import cgroups, host_facts, identity, proc_tasks
from rankmuster.collect.node.node_facts import NodeFacts
from rankmuster.collect.outcome import Ending
from rankmuster.collect.target import ProcessOfInstance, Role
from rankmuster.evidence.bundle import load
from rankmuster.model.node import NodeState, NodeTask, TaskState

PROC = Path("/proc")
MACHINE = Machine(hostname=HOST)
SLEEPER = "import time; print('ready', flush=True); time.sleep(60)"
BUSY = "print('ready', flush=True)\nwhile True: pass"


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts a program and waits until it runs; ended at the end of the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(code: str = SLEEPER, **environment: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, **environment}
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def seen(process: subprocess.Popen[bytes], rank: int | None, **more: Any) -> ProcessOfInstance:
    found = proc_tasks.stat(PROC / str(process.pid))
    assert found is not None
    return worker(rank or 0, pid=process.pid, inner=100 + (rank or 0), start_ticks=found.start_ticks, **more)


def wait_for(process: subprocess.Popen[bytes], state: str) -> None:
    """Until the kernel shows it in this state; it does so at once or never."""
    deadline = Deadline.after(20)
    while not deadline.passed:
        found = proc_tasks.stat(PROC / str(process.pid))
        if found is not None and found.state == state:
            return
    raise AssertionError(f"never in state {state}")


def tasks(bench: Bench) -> dict[int | None, NodeTask]:
    (state,) = load(bench.folder).of(NodeState)
    return {task.rank: task for task in state.tasks}


def test_each_process_is_seen_as_it_is(bench: Bench, start: Any):
    asleep, stopped, killed, busy = start(), start(), start(), start(BUSY)
    stopped.send_signal(signal.SIGSTOP)
    wait_for(stopped, "T")
    instance = target(seen(asleep, 0), seen(stopped, 1), seen(killed, 2), seen(busy, 3))
    killed.kill()
    wait_for(killed, "Z")
    outcome = bench.collect(NodeFacts(), target=instance, machine=MACHINE, look=0.4)
    assert outcome.ending is Ending.DONE
    found = tasks(bench)
    assert found[0].always(TaskState.SLEEPING)
    assert found[1].always(TaskState.STOPPED)
    assert found[2].always(TaskState.ZOMBIE)
    assert found[2].exit_code == -signal.SIGKILL
    assert found[0].cpu_share == pytest.approx(0, abs=0.1)
    share = found[3].cpu_share
    assert share is not None
    assert share > 0.1
    assert found[1].pid == 101
    assert found[0].rss_bytes or 0 > 1 << 20
    assert [thread.state for thread in found[1].stuck_threads] == [TaskState.STOPPED]


def test_one_that_ends_midway_is_gone_and_said_so(bench: Bench, start: Any):
    ending = start("print('ready', flush=True); import time; time.sleep(0.2)")
    instance = target(seen(ending, 0), seen(start(), 1))
    reaper = subprocess.Popen(["sh", "-c", "sleep 0"])
    reaper.wait()

    outcome = bench.collect(NodeFacts(), target=instance, machine=MACHINE, look=1.0)
    assert tasks(bench)[0].looks[-1].state in (TaskState.ZOMBIE, TaskState.GONE)
    assert outcome.ending is Ending.DONE


def test_a_number_that_another_process_has_by_now_is_gone(bench: Bench, start: Any):
    process = start()
    outcome = bench.collect(NodeFacts(), target=target(worker(0, pid=process.pid, start_ticks=1)), machine=MACHINE)
    assert outcome.ending is Ending.PARTIAL
    assert tasks(bench)[0].always(TaskState.GONE)


def test_everything_of_it_is_read_and_nothing_secret_is_in_it(bench: Bench, start: Any):
    secrets = {"HF_TOKEN": "hf_plantedsecret", "POD_NAME": "llm-0-1", "SLURM_JOB_ID": "77", "API_KEY": "plantedsecret"}
    secrets |= {"NODE_NAME": "plantedsecret\nsecond line", "SLURM_JOB_COMMENT": "plantedsecret"}
    process = seen(start(), 0, environ=secrets, command=("python", "--api-key=plantedsecret"), name="python\x00planted")
    bench.collect(
        NodeFacts(environment={"AWS_SECRET_ACCESS_KEY": "plantedsecret"}), target=target(process), machine=MACHINE
    )
    text = bench.text("platform/node.json")
    assert "plantedsecret" not in text
    (state,) = load(bench.folder).of(NodeState)
    assert state.facts["pod / pod_name"] == "llm-0-1"
    assert state.facts["slurm / slurm_job_id"] == "77"
    assert state.shared_memory
    assert state.shared_memory[0].pids == (100,)
    assert not load(bench.folder).problems


def test_without_an_instance_the_nodes_own_facts_are_taken(bench: Bench):
    outcome = bench.collect(NodeFacts(environment={}), machine=MACHINE)
    assert outcome.ending is Ending.DONE
    (state,) = load(bench.folder).of(NodeState)
    assert state.tasks == ()
    assert state.facts["kernel / release"]


def test_a_proc_that_shows_nothing_is_survived(bench: Bench, tmp_path: Path):
    machine = Machine(HOST, *(tmp_path / name for name in ("proc", "sys", "dev", "etc", "run")))
    outcome = bench.collect(NodeFacts(environment={}), target=target(worker(0)), machine=machine)
    assert outcome.ending is Ending.PARTIAL
    assert not load(bench.folder).problems


def test_a_deadline_between_the_looks_ends_the_wait(bench: Bench, start: Any):
    bench.collect(NodeFacts(), target=target(seen(start(), 0)), machine=MACHINE, look=60.0, seconds=0.6)
    assert len(json.loads(bench.text("platform/node.json"))["looks"]) == 2


def test_a_name_with_parentheses_and_blanks_does_not_shift_the_fields(tmp_path: Path):
    (tmp_path / "stat").write_bytes(
        b"7 (a) R 1 (b) T 5 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 99 4096 10 " + b"0 " * 27 + b"139\n"
    )
    found = proc_tasks.stat(tmp_path)
    assert found is not None
    assert (found.state, found.parent, found.threads, found.start_ticks, found.exit_status) == ("T", 5, 3, 99, 139)


@pytest.mark.parametrize("data", [b"", b"7 (x) R", b"\xff" * 300, b")" * 50, b"7 (x) R " + b"z " * 60])
def test_a_broken_stat_is_a_process_that_is_gone(tmp_path: Path, data: bytes):
    (tmp_path / "stat").write_bytes(data)
    assert proc_tasks.look(tmp_path) == {"state": "gone"}


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content + "\n")


def test_limits_of_version_2_upwards(tmp_path: Path):
    group(tmp_path / "proc", cgroup="0::/kubepods.slice/pod1/abc")
    root = tmp_path / "fs"
    group(root / "kubepods.slice/pod1", memory__max="1000", memory__current="999", memory__events="oom 3\noom_kill 2")
    group(
        root / "kubepods.slice/pod1/abc", memory__max="max", pids__max="512", cpu__stat="nr_throttled 8\nusage_usec 1"
    )
    levels = cgroups.levels(root, tmp_path / "proc")
    assert levels[0] == {"path": "/kubepods.slice/pod1/abc", "pids_max": 512, "nr_throttled": 8}
    assert levels[1] == {
        "path": "/kubepods.slice/pod1",
        "memory_max": 1000,
        "memory_current": 999,
        "oom": 3,
        "oom_kill": 2,
    }


def test_limits_of_version_1(tmp_path: Path):
    group(tmp_path / "proc", cgroup="5:memory:/a\n3:cpu,cpuacct:/a\n2:pids:/b\n0::/")
    root = tmp_path / "fs"
    group(root / "memory/a", memory__limit_in_bytes="1000", memory__oom_control="under_oom 0\noom_kill 4")
    group(root / "memory", memory__limit_in_bytes="9223372036854771712")
    group(root / "pids/b", pids__max="64")
    group(root / "cpu/a", cpu__stat="nr_throttled 2")
    levels = cgroups.levels(root, tmp_path / "proc")
    assert levels[0] == {"path": "/a", "memory_max": 1000, "under_oom": 0, "oom_kill": 4, "nr_throttled": 2}
    assert {"path": "/b", "pids_max": 64} in levels


@pytest.mark.parametrize("path", ["/../../kubepods/pod1", "/gone/away", "//", "/a/../../../etc"])
def test_a_path_of_another_namespace_stays_below_the_mount(tmp_path: Path, path: str):
    group(tmp_path / "proc", cgroup=f"0::{path}")
    group(tmp_path / "fs", memory__current="5")
    group(tmp_path / "etc", memory__current="6")
    assert cgroups.levels(tmp_path / "fs", tmp_path / "proc")[0] == {"path": "/", "memory_current": 5}


@pytest.mark.parametrize(
    "path",
    [
        "/kubepods/burstable/pod0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/abc",
        "/kubepods.slice/kubepods-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/cri-containerd-abc.scope",
    ],
)
def test_the_pods_uid_stands_in_the_path(tmp_path: Path, path: str):
    group(tmp_path, cgroup=f"0::{path}")
    assert cgroups.pod_uid(tmp_path) == "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def test_labels_are_taken_by_name():
    labels = (
        'leaderworkerset.sigs.k8s.io/group-index="0"\napp="llm"\nsecret-token="planted"\n'
        'app.kubernetes.io/name="a \\"quoted\\" one"\nbroken line\n'
    )
    found = identity.pod([{}], [{"labels": labels, "name": "llm-0\n", "uid": "a\nb"}], "uid-1")
    assert found == {
        "labels": {"leaderworkerset.sigs.k8s.io/group-index": "0", "app": "llm"},
        "pod_name": "llm-0",
        "pod_uid": "uid-1",
    }


def test_the_downward_apis_files_are_read_below_the_processes_root_and_never_outside(
    bench: Bench, start: Any, tmp_path: Path
):
    root = tmp_path / "root"
    data = root / "etc/podinfo/..2026_11_30"
    data.mkdir(parents=True)
    (data / "labels").write_text('app="llm"\n')
    (root / "etc/podinfo/..data").symlink_to("..2026_11_30")
    (tmp_path / "outside").write_text("planted")
    (data / "name").symlink_to(tmp_path / "outside")
    (root / "etc/podinfo/name").symlink_to(tmp_path / "outside")
    process = seen(start(), 0, root=root, environ={"POD_NAMESPACE": "serving"})
    bench.collect(NodeFacts(environment={}), target=target(process), machine=Machine(HOST, etc=tmp_path / "none"))
    assert "planted" not in bench.text("platform/node.json")
    pod = json.loads(bench.text("platform/node.json"))["pod"]
    assert pod == {"pod_namespace": "serving", "labels": {"app": "llm"}}


def test_a_host_name_alone_makes_no_pod():
    assert identity.pod([{"HOSTNAME": "a1"}], [], None) == {}


def test_a_slurm_job_is_described_without_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = tmp_path / "scontrol"
    tool.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = listpids ]; then printf "PID JOBID STEPID LOCALID GLOBALID\\n12 77 0 0 4\\n13 77 0 - -\\n"; else\n'
        'echo "JobId=77 JobName=x UserId=me(1) JobState=RUNNING Command=/home/me/planted Comment=planted"\n'
        'echo "NodeList=a[1-2]"\nfi\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = identity.slurm_job("77", Deadline.after(10))
    assert found["job"] == {"JobId": "77", "JobState": "RUNNING", "NodeList": "a[1-2]"}
    assert found["pids"] == [
        {"pid": 12, "step": "0", "local_rank": "0", "global_rank": "4"},
        {"pid": 13, "step": "0", "local_rank": "-", "global_rank": "-"},
    ]
    assert identity.slurm_job("77; rm -rf /", Deadline.after(10)) == {}


def test_shared_memory_is_not_looked_for_behind_a_link(tmp_path: Path):
    (tmp_path / "dev").symlink_to("/dev")
    assert host_facts.shared_memory(tmp_path) is None
    own = host_facts.shared_memory(Path("/"))
    assert own is None or own["size_bytes"] >= own["free_bytes"]


def test_the_drivers_version_is_found(tmp_path: Path):
    folder = tmp_path / "driver" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    )
    found = host_facts.devices(Machine(HOST, tmp_path, tmp_path / "none", tmp_path / "none"))
    assert found["nvidia_driver"] == "580.159.04"


def test_roles_are_written_as_words(bench: Bench, start: Any):
    process = seen(start(), 0, role=Role.ENGINE)
    bench.collect(NodeFacts(), target=target(process), machine=MACHINE)
    assert re.search(r'"role": "engine"', bench.text("platform/node.json"))


def test_a_secret_in_a_job_s_or_a_pod_s_words_is_masked() -> None:
    token = "ghp_" + "x1Y2z3A4b5C6d7E8f9G0h1I2"
    said = {
        "pod": identity.pod([{"POD_NAME": f"p-{token}"}], [{"labels": f'app="{token}"', "name": f"n-{token}"}], None),
        "slurm": identity.slurm({"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": f"train --token={token} password=hunter2"}),
    }
    assert token not in json.dumps(said)
    assert "hunter2" not in json.dumps(said)
    assert said["slurm"]["slurm_job_id"] == "7"
    assert said["slurm"]["slurm_job_name"].startswith("train")
