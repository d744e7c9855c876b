"""One cheap look at one process: state, processor time; how it ended or where it is stuck, where that is the question.

`stat` alone is read of a process that runs or sleeps. It takes no lock of the process's, so a stuck one holds nobody
up. `status` and `wchan` are read as well where the kernel keeps it waiting (state D). Source: proc(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.node import proc_tasks
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance
from rankmuster.model.node import TaskLook, TaskState

_STATES = {state.value: state for state in TaskState}
_ENDED = ("Z", "X", "x")


@dataclass(frozen=True, slots=True)
class Seen:
    """`exit_code`: of a zombie, negative for a signal, None where the kernel does not tell or it lives. `told`: whether
    its state could be read, or its absence seen."""

    look: TaskLook
    exit_code: int | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    told: bool = True


def look_at(proc: Proc, process: ProcessOfInstance, at: float) -> Seen:
    """The process at `at` (unix seconds); GONE also where another has its number by now. Never raises."""
    try:
        now = proc.stat(process.pid)
    except (NotAllowed, OSError):  # refused, or no descriptor left: nothing is known of it
        return Seen(TaskLook(at, TaskState.UNKNOWN), told=False)
    if now is None or (process.start_ticks and now.start_ticks != process.start_ticks):
        return Seen(TaskLook(at, TaskState.GONE))
    code, letter = None, now.state
    if letter in _ENDED:
        # A main thread that has ended while others go on is a zombie, too: then the process lives.
        code, letter = (now.exit_code, letter) if now.threads <= 1 else (None, "S")
    state = _STATES.get(letter, TaskState.UNKNOWN)
    channel, switches = _waits(proc.root / str(process.pid)) if state is TaskState.UNINTERRUPTIBLE else (None, None)
    look = TaskLook(at, state, channel, round(now.cpu_seconds, 2), switches)
    return Seen(look, code, now.rss_bytes, now.threads)


def _waits(folder: Path) -> tuple[str | None, int | None]:
    """(the kernel function that it waits in, its voluntary switches): two equal ones are a wait without a break."""
    found = proc_tasks.look(folder)
    channel, switches = found.get("wchan"), found.get("voluntary_switches")
    return channel if isinstance(channel, str) else None, switches if isinstance(switches, int) else None
