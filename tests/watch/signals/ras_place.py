"""An instance with a fake RAS, as a watch sees it. The fake services are those of the tests of `collect`."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.wishes import RasRisk
from rankmuster.model.fault import Phase, Progress
from rankmuster.watch.signals.ras import RasSignal
from rankmuster.watch.signals.ras_access import RasAccess

sys.path.append(str(Path(__file__).parents[2] / "collect" / "ras"))

fake_server = import_module("fake_server")
Stage = import_module("ras_scene").Stage

__all__ = ["Clock", "Place", "fake_server"]


class Clock:
    """A clock that a test moves; time passes on it too, so that waits end."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped


class Place:
    """One instance's access to RAS, at a server's port. `release`: what it has mapped, None: nothing can be told."""

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        release: str | None = None,
        risk: RasRisk = RasRisk.AFTER_STOP_CONFIRMED,
        story: tuple[int, ...] = fake_server.KILLED_PIDS,
        told: Progress | None = Progress.ADVANCING,
        phase: Phase | None = None,
        environ: dict[str, str] | None = None,
    ) -> None:
        stage = Stage(folder, port, release=release)
        stage.pids = story
        stage.environ.update(environ or {})
        self.stage = stage
        self.target = stage.scene().target
        assert self.target is not None
        self.clock = Clock()
        self.access = RasAccess(self.target, Machine(hostname="node1", proc=stage.proc), risk, clock=self.clock)
        if told is not None:
            self.access.tell(told, phase)
        self.signal = RasSignal(self.access, 60.0)

    def poll(self, seconds: float = 8.0):
        return list(self.signal.poll(Deadline.after(seconds)))
