"""The node and the instance's processes from outside, twice: who is stopped, dead, or stuck in the kernel, and limits.

A process that runs and one that waits differ in nothing but what they do in between: states, CPU time and context
switches are taken at two looks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.files_below import read_below
from rankmuster.collect.node import cgroups, clock_state, host_facts, identity, proc_tasks
from rankmuster.collect.node.sys_files import MAX_BYTES, read_text
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import ProcessOfInstance, Role, Target

SCHEMA = "rankmuster.node/1"
FILE = "platform/node.json"

MAX_TASKS = 1024
"""Processes of one instance on one node that are looked at; eight workers and their helpers are about a hundred."""

PODINFO = "podinfo"
"""Where the downward API's files are mounted, below /etc."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Plane platform. `environment`: this program's own, for a sidecar's downward API (None: os.environ)."""

    name: str = "platform"
    budget_seconds: float = 15.0
    environment: Mapping[str, str] | None = None

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """What vanishes first (states) is written first; what may block (shared memory, Slurm) comes last."""
        target = scene.target
        host = target.host if target is not None else scene.machine.hostname
        processes = _order(target)
        tasks = [task_head(one) | _gpus(one) | {"looks": []} for one in processes]
        document: dict[str, Any] = {"schema": SCHEMA, "host": host, "looks": [], "tasks": tasks}

        def keep() -> None:
            data = json.dumps(document, indent=1).encode() + b"\n"
            sink.put(FILE, data, look_time=document["looks"][0], host=host, replace=True)

        began = scene.clock()
        self._look(document, processes, scene)
        document["kernel"] = host_facts.kernel(scene.machine)
        document["devices"] = host_facts.devices(scene.machine)
        document["clock"] = clock_state.clock_state()
        keep()
        self._details(document, processes, scene, deadline)
        document["cgroups"] = self._cgroups(processes, scene)
        document["pod"] = self._pod(processes, scene)
        keep()
        document["shared_memory"] = self._shared_memory(processes)
        keep()
        self._slurm(document, processes, deadline)
        time.sleep(min(max(scene.wishes.look_seconds - (scene.clock() - began), 0.0), deadline.remaining()))
        self._look(document, processes, scene)
        document["cgroups"] += self._cgroups(processes, scene)
        keep()
        self._calls(document, processes, scene)
        keep()
        return _outcome(document, processes, found=target is not None)

    def _look(self, document: dict[str, Any], processes: list[ProcessOfInstance], scene: Scene) -> None:
        """One look at all of them; a pid that another process has by now is gone."""
        document["looks"].append(round(scene.now(), 4))
        for task, process in zip(document["tasks"], processes, strict=True):
            folder = scene.machine.proc / str(process.pid)
            now = proc_tasks.stat(folder)
            same = now is not None and now.start_ticks == process.start_ticks
            task["looks"].append(proc_tasks.look(folder) if same else {"state": "gone"})

    def _calls(self, document: dict[str, Any], processes: list[ProcessOfInstance], scene: Scene) -> None:
        """The system call that each worker is in, last of all: to read it may wait for a process that is in execve."""
        for task, process in zip(document["tasks"], processes, strict=True):
            if task["looks"][-1]["state"] != "gone" and process.role is Role.WORKER:
                task |= proc_tasks.system_call(scene.machine.proc / str(process.pid))

    def _details(
        self, document: dict[str, Any], processes: list[ProcessOfInstance], scene: Scene, deadline: Deadline
    ) -> None:
        for task, process in zip(document["tasks"], processes, strict=True):
            if deadline.passed:
                return
            folder = scene.machine.proc / str(process.pid)
            if task["looks"][0]["state"] == "gone":
                continue
            task["limits"] = proc_tasks.limits(folder)
            task |= proc_tasks.scores(folder)
            if process.role is Role.WORKER or process.rank is not None:
                task |= proc_tasks.threads(folder, deadline)
                task["uverbs"] = host_facts.uverbs_of(process.root)

    def _cgroups(self, processes: list[ProcessOfInstance], scene: Scene) -> list[dict[str, Any]]:
        """The groups of all processes once each, with the time of the look."""
        found: dict[str, dict[str, Any]] = {}
        at = round(scene.now(), 4)
        folders = [scene.machine.proc / str(process.pid) for process in processes] or [scene.machine.proc / "self"]
        for folder in folders:
            for level in cgroups.levels(scene.machine.sys / "fs/cgroup", folder):
                found.setdefault(str(level["path"]), {"time": at, **level})
        return list(found.values())

    def _pod(self, processes: list[ProcessOfInstance], scene: Scene) -> dict[str, object]:
        own = os.environ if self.environment is None else self.environment
        files = [_podinfo_of(process) for process in processes[:1]]
        mounted = scene.machine.etc / PODINFO
        files.append({name: said for name in identity.PODINFO_FILES if (said := read_text(mounted / name)) is not None})
        uids = (cgroups.pod_uid(scene.machine.proc / str(process.pid)) for process in processes)
        uid = next((uid for uid in uids if uid), None)
        environments = [*(process.environ for process in processes), own]
        return identity.pod(environments, files, uid)

    def _shared_memory(self, processes: list[ProcessOfInstance]) -> list[dict[str, Any]]:
        """Each /dev/shm once, with the processes that share it: ranks that do not cannot use it between them."""
        found: dict[int, dict[str, Any]] = {}
        for process in processes:
            seen = host_facts.shared_memory(process.root)
            if seen is not None:
                found.setdefault(seen["device"], {**seen, "pids": []})["pids"].append(process.inner_pid)
        if not processes and (own := host_facts.shared_memory(Path("/"))) is not None:
            found[own["device"]] = {**own, "pids": []}
        return list(found.values())

    def _slurm(self, document: dict[str, Any], processes: list[ProcessOfInstance], deadline: Deadline) -> None:
        said = next((found for p in processes if (found := identity.slurm(p.environ))), {})
        job = said.get("slurm_job_id")
        if job is not None:
            document["slurm"] = {**said, **identity.slurm_job(str(job), deadline)}


def _podinfo_of(process: ProcessOfInstance) -> dict[str, str]:
    """The downward API's files below the process's root: kubelet makes them links into `..data`, and nothing else there
    is followed out of the root."""
    found = {}
    for name in identity.PODINFO_FILES:
        for path in (f"/etc/{PODINFO}/..data/{name}", f"/etc/{PODINFO}/{name}"):
            with contextlib.suppress(OSError):
                found[name] = read_below(process.root, path, MAX_BYTES).decode("utf-8", errors="replace")
                break
    return found


def _order(target: Target | None) -> list[ProcessOfInstance]:
    """Workers first."""
    if target is None:
        return []
    workers = list(target.workers)
    return [*workers, *(process for process in target.processes if process not in workers)][:MAX_TASKS]


def task_head(process: ProcessOfInstance) -> dict[str, Any]:
    """Who it is. `pid` in its own numbering, as NCCL and torch write it; `seen_as`: as this program saw it."""
    head = {
        "pid": process.inner_pid,
        "seen_as": process.pid,
        "rank": process.rank,
        "role": process.role.value,
        "name": re.sub(r"[^\w:.\-/ @+]", "?", process.name)[:64],
        "started_at": round(process.started_at, 2),
    }
    return {key: value for key, value in head.items() if value is not None}


def _gpus(process: ProcessOfInstance) -> dict[str, Any]:
    return {"gpus": list(process.gpus)} if process.gpus else {}


def _outcome(document: dict[str, Any], processes: list[ProcessOfInstance], *, found: bool) -> Outcome:
    if not processes:
        why = "no process of the instance lives" if found else "no instance, so no processes"
        return Outcome(Ending.DONE, f"the node's own facts; {why}")
    gone = [task for task in document["tasks"] if task["looks"][0]["state"] == "gone"]
    left = [task for task in document["tasks"] if task not in gone and task["looks"][-1]["state"] == "gone"]
    note = f"{len(processes)} process(es) of the instance, looked at {len(document['looks'])} times"
    warnings = []
    for tasks, what in ((gone, "had ended before it was looked at"), (left, "ended while it was looked at")):
        if tasks:
            told = ", ".join(f"rank {task['rank']}" if "rank" in task else f"pid {task['pid']}" for task in tasks[:8])
            warnings.append(f"{told} {what}")
    if len(gone) == len(processes):
        return Outcome(Ending.PARTIAL, f"{note}: all of them had ended by then", tuple(warnings))
    return Outcome(Ending.DONE, note, tuple(warnings))
