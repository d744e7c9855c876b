"""Who belongs to an incarnation, and what is known of each one's end: noted while it lives, since nobody can ask later.

What a newcomer is (rank, user, where its output goes) is read from /proc at its first looks. How it ended is known only
of orphans, which come to the supervisor; a launcher collects its own ranks and tells it, if at all, in its output.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.collect import bounded
from rankmuster.collect.find.ranks import from_environ
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.proc_text import Stat
from rankmuster.collect.strip.environment import NEVER, allowed
from rankmuster.model.run_record import MAX_MEMBERS, MAX_OUTPUTS, Member
from rankmuster.supervise.processes import PROC, ticks_per_second

FIRST_LOOKS = 3
"""A process may be met between fork and exec, when it still has its parent's variables: it is read again."""

READ_PATIENCE = 0.5
READ_TOTAL = 2.0
"""For the variables of newcomers: a read of one that is stuck in a driver may never return, and callers wait."""

MAX_GONE = 128
"""Processes without rank that are remembered after their end: compilers and shells come and go by the thousand."""

MAX_PATH = 4096
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Where torchrun has told a rank to write the exception that ends it."""

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    environ: Mapping[str, str]
    uid: int
    outputs: tuple[str, ...]


class Members:
    """For one incarnation and one thread. `environment`: of the command, as far as it may be written down."""

    def __init__(self, environment: Mapping[str, str], unix_now: Callable[[], float], root: Path = PROC) -> None:
        self.environment: Mapping[str, str] = _kept(environment)
        self.left_out = 0
        self._now = unix_now
        self._proc = Proc(root)
        self._boot = self._proc.boot_time()
        self._ticks = ticks_per_second()
        self._members: dict[Key, Member] = {}
        self._looks: dict[Key, int] = {}
        self._met = unix_now()
        self._environment_of: int | None = None
        self._new = False

    @property
    def noted(self) -> tuple[Member, ...]:
        """By rank, then by start; those without rank last."""
        found = sorted(self._members.values(), key=lambda one: (one.rank is None, one.rank or 0, one.ticks, one.pid))
        return tuple(found[:MAX_MEMBERS])

    def look(self, living: Mapping[int, Stat]) -> bool:
        """Notes who has come and who has gone; whether anything is new since the last look."""
        now, before = self._now(), dict(self._members)
        new, self._new = self._new, False
        there = {(one.pid, one.start_ticks): one for one in living.values()}
        for key, one in self._members.items():
            if one.gone is None and key not in there:
                self._members[key] = replace(one, alive=self._met, gone=now)
        come = [one for key, one in there.items() if self._looks.get(key, 0) < FIRST_LOOKS]
        if come:
            done = bounded.each(come, self._read, patience=READ_PATIENCE, total=READ_TOTAL)
            found = {id(seen): read for seen, read in done.results}
            for seen in sorted(come, key=lambda one: one.start_ticks):  # who was first has the rank, its children not
                self._note(seen, found.get(id(seen)))
        self._met = now
        self._forget()
        return new or self._members != before

    def reaped(self, statuses: Mapping[int, int]) -> None:
        """Wait statuses of orphans that the supervisor has collected, by pid."""
        for pid, status in statuses.items():
            self.ended(pid, os.waitstatus_to_exitcode(status))

    def ended(self, pid: int, code: int) -> None:
        """How one of them has ended, -N for signal N."""
        key = next((key for key in sorted(self._members, reverse=True) if key[0] == pid), None)
        if key is not None and self._members[key].exit_code is None:
            now = self._now()
            one = self._members[key]
            gone = now if one.gone is None else one.gone
            alive = self._met if one.alive is None else one.alive
            self._members[key] = replace(one, exit_code=code, exited=now, gone=gone, alive=alive)
            self._new = True

    def signalled(self, seen: Stat, number: int) -> None:
        """The supervisor itself has sent a signal."""
        key = (seen.pid, seen.start_ticks)
        if key in self._members:
            self._members[key] = replace(self._members[key], signalled=number)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _note(self, seen: Stat, read: _Read | None) -> None:
        key = (seen.pid, seen.start_ticks)
        self._looks[key] = self._looks.get(key, 0) + 1
        started = self._boot + seen.start_ticks / self._ticks
        known = self._members.get(key) or Member(
            pid=seen.pid, ticks=seen.start_ticks, parent=seen.parent, started=round(started, 2)
        )
        known = replace(known, name=seen.comm)
        if read is not None:
            place = from_environ(read.environ)
            known = replace(known, uid=read.uid, outputs=read.outputs)
            if place is not None and not self._taken(key, known.parent, place.rank):
                known = replace(known, rank=place.rank, local_rank=place.local_rank, world=place.world)
                if self._environment_of is None or place.rank < self._environment_of:
                    self._environment_of, self.environment = place.rank, _kept(read.environ)
            elif known.rank is not None:
                known = replace(known, rank=None, local_rank=None, world=None)
        self._members[key] = known

    def _taken(self, key: Key, parent: int, rank: int) -> bool:
        """Whether the rank in its variables is only inherited: from its parent, or whoever had it and lives on."""
        for other, one in self._members.items():
            earlier = (one.ticks, one.pid) < (key[1], key[0])  # within one tick numbers tell, mostly
            if one.rank == rank and other != key and earlier and (one.gone is None or one.pid == parent):
                return True
        return False

    def _read(self, seen: Stat) -> _Read | None:
        with contextlib.suppress(NotAllowed, OSError):
            folder = self._proc.root / str(seen.pid)
            uid = folder.stat().st_uid
            environ = self._proc.environ(seen.pid) or {}
            outputs = [found for number in (1, 2) if (found := self._output(seen.pid, number)) is not None]
            error = environ.get(ERROR_FILE, "")
            if from_environ(environ) is not None and error.startswith("/") and len(error) <= MAX_PATH:
                outputs.append(error)
            now = self._proc.stat(seen.pid)
            if now is not None and now.start_ticks == seen.start_ticks:
                return _Read(environ, uid, tuple(dict.fromkeys(outputs))[:MAX_OUTPUTS])
        return None

    def _output(self, pid: int, number: int) -> str | None:
        """The regular file that it writes to, where the name leads to it from here, too."""
        link = self._proc.link(pid, f"fd/{number}")
        if link is None or not link.startswith("/") or len(link) > MAX_PATH or link.startswith(("/dev/", "/proc/")):
            return None
        with contextlib.suppress(OSError):
            held, named = os.stat(self._proc.root / str(pid) / "fd" / str(number)), os.stat(link)
            if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) and stat.S_ISREG(named.st_mode):
                return link
        return None

    def _forget(self) -> None:
        gone = [key for key, one in self._members.items() if one.gone is not None and one.rank is None]
        gone.sort(key=lambda key: self._members[key].gone or 0.0)
        over = gone[: max(len(gone) - MAX_GONE, len(self._members) - MAX_MEMBERS, 0)]
        for key in over:
            del self._members[key], self._looks[key]
        self.left_out += len(over)


def _kept(environ: Mapping[str, str]) -> dict[str, str]:
    """What may be written down of it. Paths stay whole, since they lead to what ranks leave; a bundle has its own
    rules, and the record is its user's alone."""
    shown = allowed(environ)
    paths = {name: environ[name] for name in shown if environ[name].startswith("/") and name not in NEVER}
    return shown | {name: path for name, path in paths.items() if len(path) <= MAX_PATH and path.isprintable()}
