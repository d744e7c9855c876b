"""What a drill starts is kept apart from everything else on the host.

Its programs load no code from the folder that somebody stands in, carry no instance's name but their own, write into
no other job's dumps and pipes, and end with the drill however it ends.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from rankmuster.collect.find.seen import MARKERS
from rankmuster.collect.proc import NotAllowed, Proc

SAFE_FOLDER = "/"
"""In which every program of a drill runs: `python -m` looks for modules where it stands, and whoever could put one here
is root already. Paths that are handed on are absolute."""

PLACES = (
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_FR_DUMP_PIPE_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "NCCL_DEBUG_FILE",
    "NCCL_RAS_ADDR",
)
"""Variables by which a drill's rank would write where another job reads, or answer where another one listens."""

ALLOWED = "RANKMUSTER_DRILL_ALLOWED"
"""Variable that allows drills of the instance whose name is its value."""


def forget(environment: MutableMapping[str, str] | None = None) -> None:
    """Takes out of an environment, else this process's own, what names another instance or its places."""
    env = os.environ if environment is None else environment
    for name in (*MARKERS, ALLOWED, *PLACES):
        env.pop(name, None)


def is_ours(pid: int, folder: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a process was started for this folder of a drill: its command line names it. A number that was written
    down may be another process's by now."""
    try:
        return str(folder).encode() in (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


class Owner:
    """Another process, by its number and when it was started: whether it is still there."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, Proc(proc)
        self._ticks = self._now()

    @property
    def gone(self) -> bool:
        """Whether it has ended, its number used again or not."""
        now = self._now()
        return now is None or now != self._ticks

    def _now(self) -> int | None:
        try:
            stat = self._proc.stat(self._pid)
        except (NotAllowed, OSError):
            return None
        return None if stat is None else stat.start_ticks
