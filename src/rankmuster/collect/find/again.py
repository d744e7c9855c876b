"""A last look at the processes that were found: which have ended meanwhile, and how, where the kernel still knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import ProcessOfInstance, Target

GONE = "X"
"""The state of a process that is no longer listed, as the kernel's own letter for a dead one."""


@dataclass(frozen=True, slots=True)
class Again:
    """`target`: with the processes' states of now. `ended`: pids (ours) that lived at the first look and do not now."""

    target: Target
    ended: tuple[int, ...]


def look_again(machine: Machine, target: Target) -> Again:
    """The same processes now. One that is gone has the state `X`; its number may be another process's by now."""
    proc = Proc(machine.proc)
    now: list[ProcessOfInstance] = []
    ended: list[int] = []
    for process in target.processes:
        state, status = _state(proc, process)
        if state in (GONE, "Z") and process.state not in (GONE, "Z"):
            ended.append(process.pid)
        now.append(replace(process, state=state, exit_status=status if status is not None else process.exit_status))
    return Again(replace(target, processes=tuple(now)), tuple(ended))


def _state(proc: Proc, process: ProcessOfInstance) -> tuple[str, int | None]:
    try:
        stat = proc.stat(process.pid)
    except (NotAllowed, OSError):
        return process.state, None  # nothing new is known of it
    if stat is None or stat.start_ticks != process.start_ticks:
        return GONE, None
    return stat.state, stat.exit_code
