"""What /proc says of a process at this moment: whether it is there, its state, which of its own it holds open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.target import ProcessOfInstance

MAX_DESCRIPTORS = 65_536
"""File descriptors of one process that are looked at; engines hold some thousands."""
MAX_THREADS = 16_384
"""Threads of one process that are looked at."""
_STAT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ProcState:
    """`letter`: R, S, D, T (stopped by a signal), t (traced), Z, X. `start_ticks`: field 22 of /proc/PID/stat."""

    letter: str
    start_ticks: int

    @property
    def stopped(self) -> bool:
        """Frozen by a signal or a debugger: it runs nothing, not even a signal's handler."""
        return self.letter in ("T", "t")

    @property
    def ended(self) -> bool:
        return self.letter in ("Z", "X", "x")


def read_state(proc: Path, pid: int, thread: int | None = None) -> ProcState | None:
    """The state of a process or of one of its threads; None when there is none of that number (any more)."""
    folder = proc / str(pid) if thread is None else proc / str(pid) / "task" / str(thread)
    try:
        with (folder / "stat").open("rb") as file:
            text = file.read(_STAT_BYTES)
    except OSError:
        return None
    # The name in brackets may hold anything, brackets and spaces too: the fields begin behind the last bracket.
    fields = text[text.rfind(b")") + 1 :].split()
    if len(fields) < 20 or not fields[19].isdigit():
        return None
    return ProcState(fields[0].decode("ascii", "replace"), int(fields[19]))


def state_of(proc: Path, process: ProcessOfInstance) -> ProcState | None:
    """The same for this very process: None too when its number has gone to another one."""
    state = read_state(proc, process.pid)
    if state is None or (process.start_ticks and state.start_ticks != process.start_ticks):
        return None
    return state


def why_not_running(state: ProcState | None) -> str | None:
    """A clause when the process cannot do anything it is asked for, else None."""
    if state is None:
        return "its process has ended"
    if state.ended:
        return "its process is dead and not yet reaped (state Z)"
    if state.stopped:
        return f"its process is frozen by a signal or a debugger (state {state.letter})"
    return None


def threads_of(proc: Path, pid: int) -> tuple[int, ...]:
    """Thread ids, sorted; none when the process has gone."""
    try:
        with os.scandir(proc / str(pid) / "task") as entries:
            found = [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return ()
    return tuple(sorted(found)[:MAX_THREADS])


def thread_name(proc: Path, pid: int, thread: int) -> str:
    """The thread's name as it gave it to itself; empty when it has gone."""
    try:
        with (proc / str(pid) / "task" / str(thread) / "comm").open("rb") as file:
            return file.read(64).decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""


def open_files(proc: Path, pid: int) -> dict[int, str] | None:
    """Descriptor -> what it leads to, as /proc spells it; None without permission or when the process has gone."""
    folder = proc / str(pid) / "fd"
    found: dict[int, str] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= MAX_DESCRIPTORS:
                    break
                try:
                    found[int(entry.name)] = os.readlink(entry.path)
                except (OSError, ValueError):  # closed this moment
                    continue
    except OSError:
        return None
    return found
