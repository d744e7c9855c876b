"""Looks at the same processes, put one after the other: one look may have met a profiler."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.diagnose.departed import ENDED
from rankmuster.model.node import NodeState, NodeTask
from rankmuster.model.node import TaskLook as Look


def merged(before: NodeState | None, state: NodeState, shift: float, most: int) -> NodeState:
    """`state` with the looks of `before` in front, the last `most` of each process; `shift` is added to its times.

    A process that is not in `state` is one that nobody looks at any more.
    """
    known = {task.pid: task.looks for task in before.tasks} if before is not None else {}
    tasks = tuple(_task(task, known.get(task.pid, ()), shift, most) for task in state.tasks)
    earlier = before.looks if before is not None else ()
    cgroups = tuple(replace(look, time=look.time + shift) for look in state.cgroups)
    moments = sorted({*earlier, *(time + shift for time in state.looks)})[-most:]
    return replace(state, looks=tuple(moments), tasks=tasks, cgroups=cgroups)


def _task(task: NodeTask, earlier: tuple[Look, ...], shift: float, most: int) -> NodeTask:
    newer = tuple(replace(look, time=look.time + shift) for look in task.looks)
    known = {look.time: look for look in (*earlier, *newer)}
    return replace(task, looks=_newest(tuple(known[time] for time in sorted(known)), most))


def _newest(looks: tuple[Look, ...], most: int) -> tuple[Look, ...]:
    """The last `most`; of a process that has ended also the two between which it did: who went first stays known."""
    kept = looks[-most:]
    if kept[0].state not in ENDED:
        return kept
    alive = [index for index, look in enumerate(looks) if look.state not in ENDED]
    if not alive or any(look.state not in ENDED for look in kept):
        return kept
    return (*looks[alive[-1] : alive[-1] + 2], *kept[2 - most :])
