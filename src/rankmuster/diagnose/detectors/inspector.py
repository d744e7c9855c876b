"""NCCL Inspector: completed operations with their times, for slowness only (a hang leaves no line).

Two questions: whom do the others wait for (the shortest of one operation came last), and did bandwidth fall against
this instance's own earlier figures. Blind to hangs, to operations below the plugin's minimum size (8 KiB by default),
and without kernel timing.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.legal import is_symmetric
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import NcclPerformance
from rankmuster.model.plane import Plane

NAME = "inspector"

FEWEST = 30
"""Operations of one kind and size on each side of a comparison; fewer say nothing of a distribution."""

LARGE_BYTES = 1 << 20
"""Sizes from which bandwidth is stable (1 % spread at 16 MiB on healthy H200s); small ones live in two modes."""

FALL = 0.8
"""Median bandwidth against the earlier one below which it drifted: far outside the spread of healthy large sizes."""


def detect(context: Context) -> list[Finding]:
    """Late arrival and drift, each at most once."""
    lines = [line for line in context.evidence.of(NcclPerformance) if line.peer is None and line.exec_us > 0]
    if not lines:
        return []
    found = []
    for finding in (_late(context, lines), _drift(context, lines)):
        if finding is not None:
            found.append(finding)
    return found


def _late(context: Context, lines: list[NcclPerformance]) -> Finding | None:
    rounds: dict[tuple[str | None, int, str, int], dict[int, NcclPerformance]] = defaultdict(dict)
    for line in lines:
        if is_symmetric(_snake(line.op)):
            rounds[(line.comm, line.nranks, line.op, line.sequence)][line.rank] = line
    complete = [found for (_, nranks, _, _), found in rounds.items() if len(found) == nranks > 1]
    if len(complete) < FEWEST:
        return None
    waited: dict[int, float] = defaultdict(float)
    total = 0.0
    for found in complete:
        ordered = sorted(found.values(), key=lambda line: line.exec_us)
        cost = ordered[1].exec_us - ordered[0].exec_us
        rank = context.roster.of_process(ordered[0].host, ordered[0].pid)
        waited[rank if rank is not None else ordered[0].rank] += cost
        total += max(line.exec_us for line in ordered)
    late = max(waited, key=lambda rank: waited[rank])
    share, dominance = waited[late] / total, waited[late] / max(sum(waited.values()), 1e-9)
    text = (
        f"Inspector: waiting for rank {late} takes {share:.0%} of the time spent in {len(complete)} collectives "
        f"({dominance:.0%} of all waiting)"
    )
    source = next(iter(complete[0].values())).source
    if share < context.limits.late_share_disturbed or dominance < context.limits.late_dominance:
        return Finding(NAME, Plane.NCCL_LOG, f"{text}: nobody stands out", (source,))
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        text,
        (source,),
        accuse(
            Subkind.PERSISTENT,
            Confidence.LIKELY,
            culprits=(late,),
            victims=tuple(rank for rank in context.world if rank != late),
            why={late: f"arrives last; waiting for it takes {share:.0%} of the time spent in collectives"},
            scope=Scope.RANK,
            stop=False,
        ),
    )


def _snake(op: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in op).lstrip("_")


def _drift(context: Context, lines: list[NcclPerformance]) -> Finding | None:
    kinds: dict[tuple[str, int], list[NcclPerformance]] = defaultdict(list)
    for line in lines:
        if line.bus_gbs is not None and line.bytes >= LARGE_BYTES:
            kinds[(line.op, line.bytes)].append(line)
    worst: tuple[float, tuple[str, int], float, float, str] | None = None
    for kind, found in kinds.items():
        timed = [(time, line) for line in found if (time := context.time(line.stamp)) is not None]
        ordered = [line for _, line in sorted(timed, key=lambda item: item[0])] or found
        third = len(ordered) // 3
        if third < FEWEST:
            continue
        before = float(np.median([line.bus_gbs or 0.0 for line in ordered[:third]]))
        after = float(np.median([line.bus_gbs or 0.0 for line in ordered[-third:]]))
        if before > 0 and (worst is None or after / before < worst[0]):
            worst = (after / before, kind, before, after, ordered[-1].source)
    if worst is None or worst[0] >= FALL:
        return None
    ratio, (op, size), before, after, source = worst
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        f"{op} of {size} bytes: median bus bandwidth fell from {before:.1f} to {after:.1f} GB/s ({ratio:.0%}) over the "
        "time recorded, on all ranks alike",
        (source,),
        accuse(Subkind.DRIFT, Confidence.LIKELY, hosts=tuple(context.roster.hosts), scope=Scope.NODE, stop=False),
    )
