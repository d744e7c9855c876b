"""Who belongs to the engine in this pod, written down while it lives, so that its end can be told from what is left.

The record has the form of a supervisor's (`model.run_record`): `collect` reads it to know the ranks of a group of which
nobody lives any more, where their dumps and logs are, and who went first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.naming import clean
from rankmuster.collect.find.run_file import boot_of
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.process_now import read_state
from rankmuster.collect.strip.environment import allowed
from rankmuster.collect.target import ProcessOfInstance, Target
from rankmuster.model.run_record import MAX_BYTES, MAX_MEMBERS, Known, Life, Member, Record, written
from rankmuster.watch.finding import Finder
from rankmuster.watch.finding_known import alive, over, telling

NAME = "engine"
"""What the record calls its instance: a supervisor's name is shorter than a pod's can be."""

LOOK_SECONDS = 1.0
"""Between two looks: `stat` of the known processes, no more."""


class Roll:
    """One pod's engine. `look` is called from one thread; what it says may be read from any.

    `instance`: its name, where the pod runs several things that look like one.
    """

    def __init__(
        self,
        folder: Path,
        instance: str,
        *,
        machine: Machine | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._machine = machine or Machine()
        self._instance = clean(instance) if instance else ""
        self._folder = folder
        self._now = now
        self._clock = clock
        self._finder = Finder(self._machine, clock=clock, unix_now=now, ask_nvml=lambda _: None)
        self._lock = threading.Lock()
        self._target: Target | None = None
        self._members: dict[tuple[int, int], Member] = {}
        self._written: Record | None = None
        self._ended: float | None = None
        self._ended_by = ""
        us = read_state(self._machine.proc, os.getpid())
        self._us = Known(pid=os.getpid(), ticks=us.start_ticks if us is not None else 0)
        self._boot, self._namespace = boot_of(self._machine) or "", _namespace(self._machine)

    @property
    def target(self) -> Target | None:
        """The engine as it was seen last; None while none was seen."""
        with self._lock:
            return self._target

    @property
    def ended(self) -> bool:
        """Whether an engine was seen, and nothing of it lives."""
        with self._lock:
            return self._ended is not None

    def told_to_end(self, who: str) -> None:
        """What ends from now on was ended by somebody."""
        self._ended_by = self._ended_by or who

    def look(self, deadline: Deadline) -> None:
        """Looks once, and writes down what is new."""
        found = self._finder.look(deadline).current
        target = next((one for one in found if one.name == self._instance), found[0] if len(found) == 1 else None)
        if target is None:
            target = self.target
            if target is None or any(alive(one) for one in target.processes):
                return  # nothing is known, or what was known is not in sight for this moment
        with self._lock:
            self._target = target
            self._note(target)
            self._ended = (self._ended or self._now()) if over(target) else None
        self._write(target)

    def _note(self, target: Target) -> None:
        now = self._now()
        if self._ended is not None and not over(target):
            self._members.clear()  # another start: those before it are in the bundle that was taken at their end
        for process in telling(target):
            key = process.pid, process.start_ticks
            known = self._members.get(key) or _member(process, target.world_size)
            if process.rank is not None and known.rank is None:
                known = replace(known, rank=process.rank, local_rank=process.local_rank, world=target.world_size)
            if alive(process):
                known = replace(known, alive=now)
            elif known.gone is None:
                known = replace(known, gone=now, exit_code=process.exit_status)
            if key in self._members or len(self._members) < MAX_MEMBERS:
                self._members[key] = known

    def _write(self, target: Target) -> None:
        """Where that fails the next look tries again: nothing else depends on it while the engine lives."""
        record = self._record(target)
        if self._written is not None and _same(record, self._written):
            return
        path = self._folder / f"{NAME}.json"
        part = path.with_name(f".{path.name}.part")
        with contextlib.suppress(OSError):
            data = written(record).encode()
            if len(data) >= MAX_BYTES:
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(part, path)
            self._written = record

    def _record(self, target: Target) -> Record:
        members = tuple(self._members.values())
        began = min((one.started for one in members), default=self._now())
        first = target.workers[0] if target.workers else target.processes[0]
        environment = dict(allowed(first.environ))
        return Record(
            instance=NAME,
            boot=self._boot,
            supervisor=self._us,
            incarnation=target.incarnation or datetime.fromtimestamp(began, timezone.utc).isoformat(),
            at=began,
            roster=tuple(Known(pid=one.pid, ticks=one.ticks) for one in members),
            ended=self._ended is not None,
            life=Life(
                cwd=str(first.cwd or "/"),
                environment=environment,
                namespace=self._namespace,
                members=members,
                ended=self._ended,
                ended_by=self._ended_by,
            ),
        )


def _namespace(machine: Machine) -> str:
    try:
        return Proc(machine.proc).link("self", "ns/pid") or ""
    except (NotAllowed, OSError):
        return ""


def _member(process: ProcessOfInstance, world: int | None) -> Member:
    return Member(
        pid=process.pid,
        ticks=process.start_ticks,
        uid=process.uid,
        parent=process.parent or 0,
        name=process.name[:64],
        started=process.started_at,
        rank=process.rank,
        local_rank=process.local_rank,
        world=world if process.rank is not None else None,
    )


def _same(one: Record, other: Record) -> bool:
    """But for the moments at which everybody was seen alive."""

    def bare(record: Record) -> Record:
        assert record.life is not None
        members = tuple(replace(one, alive=None) for one in record.life.members)
        return replace(record, life=replace(record.life, members=members))

    return bare(one) == bare(other)
