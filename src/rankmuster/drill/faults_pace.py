"""Faults after which work goes on, and the two cases in which nothing is wrong."""

from __future__ import annotations

from rankmuster.drill.fault_kinds import Deed, Fault, When, both
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.fault import FaultClass, Progress

SLOW_SECONDS = 120.0
"""Within which a watch must tell a loss of speed: three quarters of the last two minutes have to be slow
(`watch.progress.speed`)."""

_LATE = Truth(
    (FaultClass.PERFORMANCE_DEGRADATION, FaultClass.HEALTHY, FaultClass.INCONCLUSIVE),
    Naming.MAY,
    why="one collect sees that work advances, not what its rate was before; who is late stands in NCCL's "
    "dumps (gloo's know no durations), which a job that advances is not asked for unless told",
)

WELL = (
    Fault(
        "none",
        "nothing is wrong",
        When.NEVER,
        both(Truth((FaultClass.HEALTHY,), Naming.NOBODY, progress=(Progress.ADVANCING,))),
        settle_seconds=2.0,
    ),
    Fault(
        "idle",
        "no request is left, and all ranks rest outside any collective",
        When.ARMED,
        both(Truth((FaultClass.HEALTHY,), Naming.NOBODY, progress=(Progress.IDLE,))),
        deed=Deed.REST,
        settle_seconds=2.0,
    ),
)
PACE = (
    Fault(
        "slow",
        "one rank sleeps in every step",
        When.ARMED,
        both(_LATE),
        deed=Deed.SLOW,
        settle_seconds=10.0,
        most_seconds=SLOW_SECONDS,
    ),
    Fault(
        "tail",
        "one rank sleeps for a quarter of a second in one of twenty steps, at random",
        When.ARMED,
        both(_LATE),
        deed=Deed.TAIL,
        settle_seconds=10.0,
        pause_seconds=0.25,
        most_seconds=SLOW_SECONDS,
    ),
)
