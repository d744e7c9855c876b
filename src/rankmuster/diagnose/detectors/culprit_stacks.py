"""Stacks: what a rank was doing while the others waited, or where it called what timed out.

Explains a culprit, convicts nobody. Blind to ranks whose stacks were not taken, and to what happens on the GPU.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding
from rankmuster.model.frameworklog import ThreadStack
from rankmuster.model.node import KernelTask
from rankmuster.model.plane import Plane

NAME = "stacks"

MAIN = re.compile(r"main|MainThread", re.IGNORECASE)

IN_COLLECTIVE = re.compile(
    r"all_reduce|all_gather|reduce_scatter|broadcast|all_to_all|barrier|\brecv\b|\bsend\b|synchronize|cudaStream|"
    r"cudaEvent|ncclGroupEnd|wait\b",
    re.IGNORECASE,
)
"""Frames of a rank that waits for others."""

TORCH_FRAME = re.compile(r"[/\\\\]torch[/\\\\]distributed[/\\\\]")
"""Frames within torch, which are the same for every caller."""

SHOWN = 3
"""Frames quoted; the whole stack is in the evidence."""


def explain(context: Context, ranks: tuple[int, ...]) -> list[Finding]:
    """One finding per rank of `ranks` with a stack: where its main thread was."""
    found = []
    for rank in ranks:
        stacks = [stack for stack in context.evidence.of(ThreadStack) if _owner(context, stack) == rank]
        stacks = [stack for stack in stacks if stack.tool != "torch"] or stacks
        if not stacks:
            found += _in_the_kernel(context, rank)
            continue
        main = next((stack for stack in stacks if MAIN.search(stack.thread)), stacks[0])
        text = _enqueued(main) if main.tool == "torch" else _now(main)
        statement = f"Rank {rank}'s stack ({main.tool}): {text}"
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, (main.origin.reference,)))
    return found


def _in_the_kernel(context: Context, rank: int) -> list[Finding]:
    """What the kernel says of the main thread, where no better stack was taken."""
    for task in context.evidence.of(KernelTask):
        owner = (
            task.rank if task.rank is not None else context.roster.of_process(context.host_of(task.source), task.pid)
        )
        if owner != rank or not task.main:
            continue
        where = " < ".join(task.frames[:SHOWN]) or task.wait_channel
        doing = f"waits in {where}" if where else "runs, or does not say where it waits"
        text = f"its main thread (state {task.state.value}) {doing}"
        return [Finding(NAME, Plane.PLATFORM, f"Rank {rank} as the kernel sees it: {text}", (task.source,))]
    return []


def _now(stack: ThreadStack) -> str:
    """Where a thread stood when it was looked at."""
    waits = any(IN_COLLECTIVE.search(frame) for frame in stack.frames[:8])
    where = "it waits for other ranks or for its GPU" if waits else "it is in no collective"
    return f"{where}: {' < '.join(stack.frames[:SHOWN])}"


def _enqueued(stack: ThreadStack) -> str:
    """torch's stack of an operation that timed out: where it was called, and nothing of where the rank is now."""
    call = stack.frames[0].partition(" ")[0]
    own = [frame for frame in stack.frames if not TORCH_FRAME.search(frame)] or list(stack.frames)
    return f"the {call} that timed out was called in {' < '.join(own[:SHOWN])}"


def _owner(context: Context, stack: ThreadStack) -> int | None:
    if stack.origin.rank is not None:
        return stack.origin.rank
    return context.roster.of_process(stack.origin.host or context.host_of(stack.origin.source), stack.origin.pid)
