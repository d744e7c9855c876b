"""What a supervisor of the same name left running when it was killed: found and ended before anything is started.

Known by its record (pid and start time of whoever belonged to it), by our markers in their variables, and by descent
from these. A process of another user or another pid namespace is never touched.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rankmuster.collect import bounded
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.seen import INCARNATION, INSTANCE
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.proc_text import Stat
from rankmuster.model.run_record import Record
from rankmuster.supervise import naming, processes
from rankmuster.supervise.ending import end
from rankmuster.supervise.left import describe, told
from rankmuster.supervise.processes import Sent
from rankmuster.supervise.settings import RunSettings

SECONDS = 60.0

READ_PATIENCE = 0.5
READ_TOTAL = 10.0
"""For the variables of all processes: a read of one that is stuck in a driver may never return."""

Key = tuple[int, int]


class CannotTakeOver(Exception):
    """Something is left that cannot be ended, or is not known to be ours; nothing is started beside it."""


def take_over(
    settings: RunSettings,
    remembered: Record | None,
    boot: str,
    tell: Callable[[str], None],
    send: Callable[[Stat, int], Sent] = processes.send,
) -> Record | None:
    """The record, as it is after that. Raises CannotTakeOver."""
    known = remembered if remembered is not None and remembered.boot == boot else None
    found = _Leftovers(settings.name, known, boot, send)
    living = found.members()
    if not living:
        return known if known is None else replace(known, ended=True, roster=())
    if known is None:
        raise CannotTakeOver(
            f"{len(living)} process(es) of a `rankmuster run` of {settings.name} live, of which nothing is known here "
            f"({', '.join(map(str, sorted(living)[:8]))}): another one runs with another --folder, or its record is "
            "lost; end them, or give this one another --instance"
        )
    tell(
        f"the supervisor before this one was killed and left {len(living)} process(es) of incarnation "
        f"{known.incarnation}: they are ended first"
    )
    came = end(found, settings.grace, Deadline.after(settings.grace + SECONDS))
    if came.left:
        left = [describe(stat, stat.pid in came.refused) for stat in came.left]
        raise CannotTakeOver(f"what is left of incarnation {known.incarnation} cannot be ended: {told(left)}")
    return replace(known, ended=True, roster=(), ended_by_itself=False)


@dataclass
class _Leftovers:
    name: str
    record: Record | None
    boot: str
    sender: Callable[[Stat, int], Sent]

    def __post_init__(self) -> None:
        record = self.record
        self._keys: set[Key] = set()
        if record is not None:
            self._keys = {(one.pid, one.ticks) for one in record.roster}
            if record.launcher is not None:
                self._keys.add((record.launcher.pid, record.launcher.ticks))
        self._read: dict[Key, bool] = {}

    def members(self) -> Mapping[int, Stat]:
        """Those known, those marked, and what descends from them."""
        processes.reap(set())
        listed = processes.table()
        mine = os.getpid()
        own = {mine, *processes.above(listed, mine)}  # whoever starts the next from within the last
        living = {pid: stat for pid, stat in listed.items() if processes.lives(stat) and pid not in own}
        self._look_for_markers([one for one in living.values() if (one.pid, one.start_ticks) not in self._read])
        roots = {
            pid
            for pid, stat in living.items()
            if (stat.pid, stat.start_ticks) in self._keys or self._read.get((stat.pid, stat.start_ticks))
        }
        found = {pid: living[pid] for pid in roots}
        found |= {pid: stat for pid, stat in processes.below(listed, roots, own).items() if pid in living}
        # what descends from them stays theirs when they are gone
        self._keys.update((stat.pid, stat.start_ticks) for stat in found.values())
        return found

    def send(self, stat: Stat, number: int) -> Sent:
        return self.sender(stat, number)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _look_for_markers(self, stats: list[Stat]) -> None:
        done = bounded.each(stats, self._marked, patience=READ_PATIENCE, total=READ_TOTAL)
        for stat, marked in done.results:
            self._read[stat.pid, stat.start_ticks] = marked
        for stat in (*done.stuck, *done.skipped):
            self._read[stat.pid, stat.start_ticks] = False

    def _marked(self, stat: Stat) -> bool:
        proc = Proc(processes.PROC)
        with contextlib.suppress(NotAllowed, OSError):
            status = proc.status(stat.pid)
            if status is None or status.uid != os.getuid():
                return False
            if proc.link(stat.pid, "ns/pid") != proc.link("self", "ns/pid"):
                return False
            environ = proc.environ(stat.pid) or {}
            if environ.get(INSTANCE) != self.name:
                return False
            marked = environ.get(INCARNATION, "")
            if self.record is not None:
                return marked in (self.record.incarnation, *self.record.earlier) and naming.is_ours(marked, self.boot)
            return naming.is_ours(marked, self.boot)
        return False
