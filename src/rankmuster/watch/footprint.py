"""What the watch itself costs: processor and memory, its children's too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.watch.snapshot import WatcherView

EVERY_SECONDS = 30.0
"""Between two looks at its own memory: it hardly changes, and finding children reads every process's parent."""

_PAGE = os.sysconf("SC_PAGESIZE")


class Footprint:
    """`clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float], proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._proc = Proc(proc)
        self._next = clock()
        self._seen = (0.0, 0)

    def now(self) -> tuple[float, int]:
        """Processor seconds since the start, and resident bytes; children that have ended count in the first."""
        if self._clock() >= self._next:
            self._next = self._clock() + EVERY_SECONDS
            self._seen = self._look()
        return self._seen

    def _look(self) -> tuple[float, int]:
        times = os.times()
        cpu = times.user + times.system + times.children_user + times.children_system
        rss = self._resident(os.getpid())
        ticks = os.sysconf("SC_CLK_TCK")
        for pid in self._children():
            try:
                stat = self._proc.stat(pid)
            except (NotAllowed, OSError):
                continue
            if stat is not None:
                cpu += stat.cpu_ticks / ticks
                rss += self._resident(pid)
        return cpu, rss

    def _children(self) -> list[int]:
        found = []
        for task in (self._proc.root / "self/task").iterdir():
            try:
                found += [int(pid) for pid in (task / "children").read_text().split()]
            except (OSError, ValueError):
                continue
        return found

    def _resident(self, pid: int) -> int:
        try:
            return int((self._proc.root / f"{pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return 0

    @staticmethod
    def view(version: str, started: float, period: float, cpu: float, rss: int, notes: tuple[str, ...]) -> WatcherView:
        """As the snapshot has it."""
        return WatcherView(version, started, period, cpu, rss, notes)
