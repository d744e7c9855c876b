"""The files that NCCL_DEBUG_FILE names, followed: inits, warnings, network errors."""

from __future__ import annotations

import time
from collections.abc import Callable

from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Target
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.log_places import NcclFinder
from rankmuster.watch.signals.log_signal import LogSignal

BLIND_TO = (
    "what NCCL does not log at its level; inits before the watch began; calls and transports, which are not followed: "
    "only a whole log says something by them"
)


class NcclLogSignal(LogSignal):
    """Of one instance. Where NCCL logs to the processes' own output, the framework log's signal hears it."""

    def __init__(
        self,
        target: Target | None,
        *,
        machine: Machine | None = None,
        period: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            target,
            NcclFinder(),
            name="nccl-log",
            plane=Plane.NCCL_LOG,
            readers=(Plane.NCCL_LOG,),
            folder="nccl",
            blind_to=BLIND_TO,
            machine=machine,
            period=period,
            clock=clock,
            wall=wall,
        )
