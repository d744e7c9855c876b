"""Stacks: what a rank was doing while the others waited. Explains a culprit, convicts nobody.

Blind to ranks whose stacks were not taken, and to what happens on the GPU.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding
from rankmuster.model.frameworklog import ThreadStack
from rankmuster.model.plane import Plane

NAME = "stacks"

MAIN = re.compile(r"main|MainThread", re.IGNORECASE)

IN_COLLECTIVE = re.compile(
    r"all_reduce|all_gather|reduce_scatter|broadcast|all_to_all|barrier|\brecv\b|\bsend\b|synchronize|cudaStream|"
    r"cudaEvent|ncclGroupEnd|wait\b",
    re.IGNORECASE,
)
"""Frames of a rank that waits for others."""

SHOWN = 3
"""Frames quoted; the whole stack is in the evidence."""


def explain(context: Context, ranks: tuple[int, ...]) -> list[Finding]:
    """One finding per rank of `ranks` with a stack: where its main thread was."""
    found = []
    for rank in ranks:
        stacks = [stack for stack in context.evidence.of(ThreadStack) if _owner(context, stack) == rank]
        stacks = [stack for stack in stacks if stack.tool != "torch"] or stacks
        if not stacks:
            continue
        main = next((stack for stack in stacks if MAIN.search(stack.thread)), stacks[0])
        frames = " < ".join(main.frames[:SHOWN])
        waits = any(IN_COLLECTIVE.search(frame) for frame in main.frames[:8])
        where = "waits in a call of its own" if waits else "is in no collective"
        statement = f"Rank {rank}'s stack ({main.tool}): it {where}: {frames}"
        found.append(Finding(NAME, Plane.FRAMEWORK_LOG, statement, (f"{main.origin.source}#L{main.origin.line}",)))
    return found


def _owner(context: Context, stack: ThreadStack) -> int | None:
    if stack.origin.rank is not None:
        return stack.origin.rank
    return context.roster.of_process(None, stack.origin.pid)
