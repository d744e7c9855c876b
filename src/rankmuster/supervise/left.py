"""What is left of a group after SIGKILL, and why: the thread that sleeps where no signal wakes it, and in what."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.proc_text import Stat
from rankmuster.supervise.processes import PROC

MAX_THREADS = 4096
MAX_TOLD = 8


@dataclass(frozen=True, slots=True)
class Left:
    """`state`: D where any of its threads sleeps uninterruptibly. `waits_in`: the kernel's function, "" where it does
    not say. `refused`: we may not signal it."""

    pid: int
    comm: str
    state: str
    waits_in: str = ""
    refused: bool = False

    def __str__(self) -> str:
        where = f" in {self.waits_in}" if self.waits_in else ""
        return f"pid {self.pid} ({self.comm}), state {self.state}{where}{', not ours to signal' * self.refused}"


def describe(stat: Stat, refused: bool = False, root: Path = PROC) -> Left:
    """Looks at its threads, one that sleeps uninterruptibly first."""
    proc = Proc(root)
    state, thread = stat.state, stat.pid
    with contextlib.suppress(OSError):
        for name in os.listdir(root / str(stat.pid) / "task")[:MAX_THREADS]:
            with contextlib.suppress(NotAllowed, OSError):
                one = proc.stat(stat.pid, int(name))
                if one is not None and one.state == "D":
                    state, thread = "D", one.pid
                    break
    waits = b""
    with contextlib.suppress(NotAllowed, OSError):
        waits = proc.read(stat.pid, f"task/{thread}/wchan", 200) or b""
    said = waits.decode("ascii", "replace").strip()
    return Left(stat.pid, stat.comm, state, "" if said == "0" else said, refused)


def told(left: Iterable[Left]) -> str:
    """In one clause."""
    listed = list(left)
    more = f" and {len(listed) - MAX_TOLD} more" if len(listed) > MAX_TOLD else ""
    return "; ".join(map(str, listed[:MAX_TOLD])) + more
