"""Framework logs: the rank that raised an exception of its own, and will come to no collective any more.

An exception that says another failure came first is a victim's. Several ranks that raise at once (a bad request
reaches all of them) are not told apart. Blind to what is caught, and to the order of tracebacks without a time.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import PythonException
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "process-exit"
"""Part of the detector of ends: a rank that raised has ended, whether or not its process is seen to go."""

OF_THE_OTHERS = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError", "DistError"})
"""torch.distributed's own exceptions: they tell of the others or of the path, never that this rank began it."""


SAID_OF_THE_OTHERS = re.compile(
    r"^NCCL error|^Detected mismatch between collectives|failed to listen on any local network address|"
    r"The client socket has|connectFullMesh failed|Unable to find address for: |system not yet initialized"
)
"""The same in exceptions of a plain class: old torch, vLLM's PyNccl, the comparison of calls, no fabric. One of them is
the rank's own, that gloo has no interface there: the init is told then, and not that its process ended."""

SHARED_MEMORY = "out of shared memory"
"""What torch says of a data loader that SIGBUS ended (torch/utils/data/_utils/signal_handling.py)."""


def _own(line: PythonException) -> bool:
    if SAID_OF_THE_OTHERS.search(line.message):
        return False
    return not line.consequence and line.name.rsplit(".", 1)[-1] not in OF_THE_OTHERS


def ranks_with_own(context: Context) -> frozenset[int]:
    """Ranks whose log has an exception that names no earlier failure."""
    lines = context.evidence.of(PythonException)
    return frozenset(line.origin.rank for line in lines if line.origin.rank is not None and _own(line))


def ranks_with_consequences(context: Context) -> frozenset[int]:
    """Ranks whose log has exceptions, all of which follow another failure."""
    lines = context.evidence.of(PythonException)
    raised = frozenset(line.origin.rank for line in lines if line.origin.rank is not None)
    return raised - ranks_with_own(context)


def first_raised(context: Context) -> list[Finding]:
    """The ranks that raised first, where no process's end accuses anybody."""
    lines = [
        (context.time(line.origin.stamp), line)
        for line in context.evidence.of(PythonException)
        if _own(line) and line.origin.rank is not None
    ]
    alarm = context.first_alarm
    timed = [(time, line) for time, line in lines if time is not None]
    if timed and alarm is not None:
        timed = [(time, line) for time, line in timed if time < alarm]
        if not timed:
            return []  # all of them after the first time-out or alarm
    if timed:
        start = min(time for time, _ in timed)
        first = [line for time, line in timed if time <= start + context.limits.aftershock_seconds]
        when = "before anything else went wrong"
    else:
        start, first = None, [line for _, line in lines]
        when = "at an unknown time, and no other rank has an exception of its own"
    ranks = tuple(sorted({line.origin.rank for line in first if line.origin.rank is not None}))
    if not ranks:
        return []
    waited_too = {line.origin.rank for line in context.timeouts} & set(ranks)
    convicted = len(ranks) == 1 < len(context.world) and not (waited_too and start is None)
    texts = {line.origin.rank: f"{line.name}: {quoted(line.message, 120)}" for line in reversed(first)}
    shown = "; ".join(f"rank {rank}: {texts[rank]}" for rank in ranks[:8])
    statement = f"{ranks_text(ranks).capitalize()} raised an exception of {'its' if len(ranks) == 1 else 'their'} own: "
    statement += shown
    places = sorted({line.where for line in first if line.where})
    if places:
        statement += f" (in {places[0]})"
    if any(SHARED_MEMORY in line.message for line in first):
        statement += (
            ". Shared memory is used up: /dev/shm is full or too small there: docker --shm-size or --ipc=host, in "
            "kubernetes an emptyDir of medium Memory on it"
        )
    if len(ranks) > 1:
        when = "as others did; which was first is unknown"
    accusation = accuse(
        Subkind.EXITED,
        Confidence.LIKELY if convicted or start is not None else Confidence.POSSIBLE,
        culprits=ranks if convicted else (),
        suspects=() if convicted else ranks,
        victims=tuple(other for other in context.world if other not in ranks) if convicted else (),
        why={rank: f"raised {texts[rank]} ({when})" for rank in ranks},
        scope=Scope.RANK,
        at=start,
    )
    evidence = tuple(line.origin.reference for line in first[:8])
    return [Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, accusation)]
