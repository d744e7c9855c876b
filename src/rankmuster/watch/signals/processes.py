"""The instance's processes on this node, looked at from outside each period, and what it is when that changes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import Proc
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.evidence import instance
from rankmuster.evidence.blob import Blob
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.node import NodeState, NodeTask, TaskState
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.process_look import Seen, look_at
from rankmuster.watch.signals.signal import Failed, Heard, Said

MAX_TASKS = 128
"""Processes looked at, the most telling first: eight ranks with servers and compile workers are about a hundred, and
one look costs some 20 microseconds."""

SOURCE = "platform/node.json"

_IMPORTANCE = (Role.WORKER, Role.ENGINE, Role.SERVER, Role.LAUNCHER, Role.HELPER)


class ProcessSignal:
    """One instance's. `period`: seconds. `now`: unix seconds, `clock`: seconds that never jump."""

    name = "processes"
    plane = Plane.PLATFORM
    blind_to = (
        "what a process that runs is doing: a wait inside a kernel launch and an endless loop look like work, and "
        "processes on other nodes"
    )

    def __init__(
        self,
        target: Target,
        machine: Machine,
        period: float,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.period = period
        self._proc = Proc(machine.proc)
        self._now = now
        self._clock = clock
        self._target = target
        self._facts_of: Target | None = None
        self._codes: dict[tuple[int, int], int] = {}

    def retarget(self, target: Target) -> None:
        """The instance as it is now; its description is said at the next poll."""
        self._target = target

    def close(self) -> None:
        """Nothing is held open."""

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        """The description of the instance where it has changed, then one look at every process."""
        target = self._target
        said: list[Said] = []
        at, now = self._now(), self._clock()
        if target is not self._facts_of:
            facts = facts_of(target, at)
            if facts is not None:
                said.append(Heard(now, at, facts, self.plane))
            self._facts_of = target
            alive = {_key(process) for process in target.processes}
            self._codes = {key: code for key, code in self._codes.items() if key in alive}
        tasks: list[NodeTask] = []
        told = gone = 0
        for process in looked_at(target):
            if deadline.passed:
                break
            seen = look_at(self._proc, process, at)
            told += seen.told
            gone += seen.look.state is TaskState.GONE
            tasks.append(self._task(process, seen))
        if not tasks:
            return said
        if gone == len(tasks) and not self._proc.pids():
            reason = f"{self._proc.root} lists no process any more: whether the instance's live cannot be seen"
            return [*said, Failed(now, self.plane, reason)]
        if not told:
            reason = (
                f"no process of {target.name} lets its state be read below {self._proc.root}: permissions, or no file "
                "descriptor left"
            )
            return [*said, Failed(now, self.plane, reason)]
        said.append(Heard(now, at, NodeState(SOURCE, target.host, (at,), tuple(tasks)), self.plane))
        return said

    def _task(self, process: ProcessOfInstance, seen: Seen) -> NodeTask:
        key = _key(process)
        code = seen.exit_code if seen.exit_code is not None else self._codes.get(key, process.exit_status)
        if seen.exit_code is not None:
            self._codes[key] = seen.exit_code
        return NodeTask(
            pid=process.inner_pid,
            rank=process.rank,
            role=process.role.value,
            name=process.name,
            looks=(seen.look,),
            exit_code=code,
            rss_bytes=seen.rss_bytes,
            threads=seen.threads,
        )


def looked_at(target: Target) -> list[ProcessOfInstance]:
    """The processes that are looked at, ranks first, at most MAX_TASKS."""
    if len(target.processes) <= MAX_TASKS:
        return list(target.processes)
    order = sorted(target.processes, key=lambda process: (process.rank is None, _IMPORTANCE.index(process.role)))
    return order[:MAX_TASKS]


def facts_of(target: Target, at: float) -> InstanceFacts | None:
    """The instance as a bundle's `instance.json` of this moment (`at`: unix seconds) would tell it."""
    from rankmuster.collect.find.facts import instance_facts

    document = json.dumps(instance_facts(target, at)).encode("utf-8", "surrogatepass")
    found = instance.read(Blob("instance.json", document)).observations
    return next((one for one in found if isinstance(one, InstanceFacts)), None)


def _key(process: ProcessOfInstance) -> tuple[int, int]:
    return process.pid, process.start_ticks
