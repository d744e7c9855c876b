"""How a process goes at this moment, by /proc: whether it is there, frozen or dead, its threads, what it holds open."""

from __future__ import annotations

import os
from pathlib import Path

from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.proc_text import Stat
from rankmuster.collect.target import ProcessOfInstance

MAX_DESCRIPTORS = 65_536
"""File descriptors of one process that are looked at; engines hold some thousands."""
MAX_THREADS = 16_384
"""Threads of one process that are looked at."""


def read_state(proc: Path, pid: int, thread: int | None = None) -> Stat | None:
    """The state of a process or of one of its threads; None when there is none of that number (any more)."""
    try:
        return Proc(proc).stat(pid, thread)
    except (NotAllowed, OSError):
        return None


def state_of(proc: Path, process: ProcessOfInstance) -> Stat | None:
    """The same for this very process: None too when its number has gone to another one."""
    state = read_state(proc, process.pid)
    if state is None or (process.start_ticks and state.start_ticks != process.start_ticks):
        return None
    return state


def why_not_running(state: Stat | None) -> str | None:
    """A clause when the process cannot do anything it is asked for, else None."""
    if state is None:
        return "its process has ended"
    if state.ended:
        return "its process is dead and not yet reaped (state Z)"
    if state.stopped:
        return f"its process is frozen by a signal or a debugger (state {state.state})"
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
        data = Proc(proc).read(pid, f"task/{thread}/comm", 64)
    except (NotAllowed, OSError):
        return ""
    return (data or b"").decode("utf-8", "replace").rstrip("\n")


def open_files(proc: Path, pid: int) -> dict[int, str] | None:
    """Descriptor -> what it leads to, as /proc spells it; None without permission or when the process has gone."""
    found: dict[int, str] = {}
    try:
        with os.scandir(proc / str(pid) / "fd") as entries:
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
