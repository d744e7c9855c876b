"""The kernel's view of one process's threads, which `rankmuster collect` takes where no Python stacks can be had.

`# the kernel's view of pid 77 (python), 3 tasks`, then for each thread `task 78 'pt_main' state=D wchan=nvidia_ioctl
syscall=16`, and with root its kernel stack below, `    [<0>] nv_foo+0x1/0x2`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.model.node import KernelTask, TaskState
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

MAX_TASKS = 4096
MAX_FRAMES = 64
"""The kernel itself stops at 64 (MAX_STACK_TRACE_DEPTH in fs/proc/base.c)."""

_WINDOW = 512
_HEAD = re.compile(r"# the kernel's view of pid (\d{1,10}) \(([^\n]{0,64})\), \d{1,7} tasks?")
_TASK = re.compile(
    r"task (?P<tid>\d{1,10}) (?P<name>'[^\n]{0,80}?'|\"[^\n]{0,80}?\") state=(?P<state>\S{1,4})"
    r" wchan=(?P<wchan>\S{1,200}) syscall=(?P<call>\S{1,16})"
)
_FRAME = re.compile(r"\s{4}(?:\[<[0-9a-f]{1,16}>\] )?(?P<frame>\S{1,300})")
_STATES = {state.value: state for state in TaskState}


def _recognises(blob: Blob) -> bool:
    return _HEAD.match(text.head(blob.data, _WINDOW).lstrip("\ufeff")) is not None


def _read(blob: Blob) -> Reading:
    found: list[KernelTask] = []
    pid = 0
    rank = names.rank_of(blob.path)
    known = 0
    first = True
    for _, line in text.lines(blob.data):
        head = _HEAD.match(line.lstrip("\ufeff"))
        task = _TASK.match(line)
        if head is not None:
            pid = int(head.group(1))
            known += 1
            first = True
        elif task is not None and len(found) < MAX_TASKS:
            channel = task["wchan"]
            found.append(
                KernelTask(
                    source=blob.path,
                    rank=rank,
                    pid=pid,
                    tid=int(task["tid"]),
                    name=task["name"][1:-1],
                    state=_STATES.get(task["state"], TaskState.UNKNOWN),
                    wait_channel=None if channel in ("?", "0") else channel,
                    system_call=int(task["call"]) if task["call"].isdecimal() else None,
                    main=first,
                )
            )
            first = False
        elif found and (frame := _FRAME.match(line)) is not None and len(found[-1].frames) < MAX_FRAMES:
            found[-1] = replace(found[-1], frames=(*found[-1].frames, frame["frame"]))
    problems: tuple[Problem, ...] = ()
    if known and not found:
        problems = (
            Problem(ProblemKind.DAMAGED, blob.path, "the kernel's view of a process, without any of its tasks"),
        )
    return Reading(tuple(found), problems, known)


READER = Reader("kernel's view of threads", Plane.PLATFORM, ReaderKind.DOCUMENT, _recognises, _read)
