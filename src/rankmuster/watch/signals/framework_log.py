"""What torch, the engine and their launchers write, followed: watchdogs' time-outs, exceptions, deaths, statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Target
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.log_places import OutputFinder
from rankmuster.watch.signals.log_signal import LogSignal

BLIND_TO = (
    "output that goes to a pipe, a terminal or the journal; what was written before the watch began; why a watchdog's "
    "time is up; an engine that logs nothing while it is stuck"
)


class FrameworkLogSignal(LogSignal):
    """Of one instance. `files`: further ones, of the configuration. NCCL's lines among the output are its own plane's.

    `var_log`, `docker`: where this node keeps its containers' logs, as seen from here.
    """

    def __init__(
        self,
        target: Target | None,
        *,
        files: Sequence[Path] = (),
        machine: Machine | None = None,
        var_log: Path = Path("/var/log"),
        docker: Path = Path("/var/lib/docker/containers"),
        period: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            target,
            OutputFinder(files, var_log, docker),
            name="framework-log",
            plane=Plane.FRAMEWORK_LOG,
            readers=(Plane.FRAMEWORK_LOG, Plane.NCCL_LOG),
            folder="logs",
            blind_to=BLIND_TO,
            machine=machine,
            period=period,
            clock=clock,
            wall=wall,
        )
