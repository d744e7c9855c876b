"""The kernel's out-of-memory killer in its forms since cgroup v1: whom it killed, and whose limit was hit.

Source: linux `mm/oom_kill.c`, `mm/memcontrol*.c` (before and since 5.0).
"""

from __future__ import annotations

import re
from dataclasses import replace

from rankmuster.model.kernel import KernelOrigin, OomKill

WORDS = (
    "ut of memory: Kill",
    "Killed process ",
    "oom-kill:",
    "oom_reaper: reaped process",
    "killed as a result of limit of",
)
"""One of these is in every line that `OomScan.take` understands."""

EPISODE_SECONDS = 120.0
"""Lines on one pid this close are one kill; a big process takes tens of seconds to give its memory back."""

_KILL = re.compile(
    r"\bKill(?:ed)? process (\d{1,10})(?:, UID \d{1,10},)? \(([^()]{0,64}(?:\([^()]{0,64}\))?[^()]{0,64})\)"
)
_SUMMARY = re.compile(r"\boom-kill:constraint=(\w{1,64})")
_FIELD = re.compile(r"(?:^|,)(task_memcg|oom_memcg|task|pid)=([^,]{0,4096})")
_REAPED = re.compile(r"\boom_reaper: reaped process (\d{1,10}) \(([^()]{0,64})\)")


class OomScan:
    """Takes lines in order; one `OomKill` for each process, whichever of its three or four lines are left."""

    def __init__(self) -> None:
        self._kills: list[OomKill] = []
        self._open: dict[tuple[str | None, int], int] = {}
        self._limit_hit: set[str | None] = set()

    def take(self, origin: KernelOrigin, text: str) -> bool:
        """Whether the line was the killer's."""
        if "killed as a result of limit of" in text and "Task in " in text:
            self._limit_hit.add(origin.host)  # cgroup v1 says whose limit it was one line before whom it kills
            return True
        summary = _SUMMARY.search(text)
        if summary:
            fields = dict(_FIELD.findall(text))
            cgroup = summary.group(1) == "CONSTRAINT_MEMCG"
            pid = fields.get("pid", "")
            if pid.isdecimal() and len(pid) <= 10:
                self._add(origin, int(pid), fields.get("task"), cgroup, text, fields.get("task_memcg"))
            return True
        kill = _KILL.search(text)
        if kill:
            cgroup = "emory cgroup out of memory" in text or origin.host in self._limit_hit
            self._add(origin, int(kill.group(1)), kill.group(2), cgroup, text, None)
            if "Killed" in text:
                self._limit_hit.discard(origin.host)
            return True
        reaped = _REAPED.search(text)
        if reaped:
            self._add(origin, int(reaped.group(1)), reaped.group(2), False, text, None)
            return True
        return False

    def finish(self) -> list[OomKill]:
        """The kills in the log's order."""
        return self._kills

    def _add(
        self, origin: KernelOrigin, pid: int, process: str | None, cgroup: bool, text: str, path: str | None
    ) -> None:
        key = (origin.host, pid)
        at = self._open.get(key)
        if at is not None and _same_episode(self._kills[at].origin, origin):
            old = self._kills[at]
            self._kills[at] = replace(
                old,
                process=old.process or process,
                cgroup=old.cgroup or cgroup,
                memory_cgroup=old.memory_cgroup or path,
            )
            return
        self._open[key] = len(self._kills)
        self._kills.append(OomKill(origin, pid, process or None, cgroup, text, path))


def _same_episode(a: KernelOrigin, b: KernelOrigin) -> bool:
    if a.stamp is None or b.stamp is None or a.stamp.kind is not b.stamp.kind:
        return True
    return abs(a.stamp.seconds - b.stamp.seconds) <= EPISODE_SECONDS
