"""Which pod a process of this node is in, remembered for as long as it lives: a page is asked for every few seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect import bounded
from rankmuster.collect.node import cgroups
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.kube.agents.gpu_row import Whose

MOST = 4096

PATIENCE = 0.3
"""Seconds for a process's environment: the lock on it may be held by a driver that hangs."""


@dataclass(frozen=True, slots=True)
class Inside:
    """`inner`: its number in the pod."""

    whose: Whose
    inner: int


class PodsOfPids:
    """`root`: of the host's /proc. For one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._proc = Proc(root)
        self._known: dict[tuple[int, int], Inside] = {}

    def of(self, pid: int) -> Inside | None:
        """None for a process that is gone, or in no pod."""
        try:
            stat = self._proc.stat(pid)
        except (NotAllowed, OSError):
            return None
        if stat is None:
            return None
        key = pid, stat.start_ticks
        if key not in self._known:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = self._look(pid)
        found = self._known[key]
        return found if found.whose.uid else None

    def _look(self, pid: int) -> Inside:
        done = bounded.each([pid], self._environ, patience=PATIENCE, total=PATIENCE)
        environ = done.results[0][1] if done.results else {}
        uid = cgroups.pod_uid(self._root / str(pid)) or environ.get("POD_UID", "")
        try:
            status = self._proc.status(pid)
        except (NotAllowed, OSError):
            status = None
        inner = status.pids[-1] if status is not None and status.pids else pid
        return Inside(Whose(uid, environ.get("POD_NAMESPACE", ""), environ.get("POD_NAME", "")), inner)

    def _environ(self, pid: int) -> dict[str, str]:
        try:
            return dict(self._proc.environ(pid) or {})
        except (NotAllowed, OSError):
            return {}
