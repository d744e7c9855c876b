"""What is kept of one incarnation for whoever comes when it has ended: its settings, its processes, its end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from rankmuster.collect.proc_text import Stat
from rankmuster.model.run_record import Life
from rankmuster.supervise import processes
from rankmuster.supervise.members import Members
from rankmuster.supervise.settings import RunSettings
from rankmuster.supervise.start_environment import Made


class LifeNotes:
    """To be made just before the start: what is in the log by then is of others. For one thread."""

    def __init__(self, settings: RunSettings, made: Made, unix_now: Callable[[], float]) -> None:
        self._now = unix_now
        self._members = Members(made.environment, unix_now)
        offset, inode, namespace = 0, None, ""
        if settings.log is not None:
            with contextlib.suppress(OSError):
                about = os.stat(settings.log)
                offset, inode = about.st_size, about.st_ino
        with contextlib.suppress(OSError):
            namespace = os.readlink(processes.PROC / "self/ns/pid")
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "/"
        self._life = Life(
            log=settings.log,
            offset=offset,
            log_inode=inode,
            cwd=cwd,
            profile=made.profile,
            evidence=settings.evidence,
            namespace=namespace,
        )

    @property
    def life(self) -> Life:
        """All of it, as it is now."""
        members = self._members
        return replace(self._life, members=members.noted, left_out=members.left_out, environment=members.environment)

    def look(self, living: Mapping[int, Stat]) -> bool:
        """Who lives now; whether anything is new."""
        return self._members.look(living)

    def reaped(self, statuses: Mapping[int, int]) -> None:
        """Orphans that the supervisor has collected: pid -> wait status."""
        self._members.reaped(statuses)

    def signalled(self, seen: Stat, number: int) -> None:
        """What ends that one from now on is the supervisor's doing."""
        self._members.signalled(seen, number)

    def launcher_ended(self, pid: int) -> None:
        """How the command has ended, where it has: to be asked as soon as that may be."""
        code = processes.exit_code(pid)
        if code is not None:
            self._members.ended(pid, code)

    def is_ended_by(self, who: str) -> None:
        """Somebody has it ended; who was first counts."""
        self._life = replace(self._life, ended_by=self._life.ended_by or who[:500])

    def ended(self) -> None:
        """Nobody of it lives any more."""
        self._members.look({})
        self._life = replace(self._life, ended=self._now())
