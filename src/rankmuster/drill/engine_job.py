"""The job of one incarnation of the drill's engine: a drill's job whose front end takes real requests."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankmuster.drill import engine_front
from rankmuster.drill.engine_line import LINE_FD, pair
from rankmuster.drill.engine_report import Failed, failure_table
from rankmuster.drill.front import Front
from rankmuster.drill.job import LAUNCHER_LOG, WORKER, DrillJob
from rankmuster.drill.launch import End
from rankmuster.drill.plan import LOGS, JobPlan


class EngineJob(DrillJob):
    """As `DrillJob`; rank 0 and the front end each hold one end of the line between them."""

    def __init__(
        self,
        plan: JobPlan,
        environment: Mapping[str, str],
        folder: Path,
        *,
        worker: Sequence[str] = WORKER,
        port: int = 0,
    ) -> None:
        super().__init__(plan, environment, folder, worker=worker, port=port)
        self._ends: tuple[socket.socket, ...] = ()
        self._stopping = False

    def start(self) -> None:
        """Starts every process; raises OSError when one cannot be started."""
        self._ends = pair()
        try:
            super().start()
        finally:
            for end in self._ends:  # theirs alone from now on, so that each sees the other's end
                end.close()

    def heed(self) -> None:
        """Cuts the rank's link once somebody has given the word: whoever gave it has no way to the link."""
        if self.fault.cuts and self.tally.armed and self.fault_at is None:
            self.make()

    def stop(self) -> None:
        """As of every job. What ends from now on is ended by this launcher, and its log does not call that a failure:
        who failed first could not be told there."""
        if not self._stopping and self.exits:
            pids = self.pids
            failed = [Failed(rank, pids[rank], end.code, end.at) for rank, end in self.exits.items()]
            with (self.folder / LOGS / LAUNCHER_LOG).open("a") as log:
                log.write(failure_table(failed, socket.gethostname().split(".")[0]))
        self._stopping = True
        super().stop()

    def _ended(self, rank: int, pid: int, end: End) -> None:
        if not self._stopping:
            super()._ended(rank, pid, end)

    @property
    def broken(self) -> int | None:
        """Exit status of the first process that has ended, 128 + N for signal N as a shell has it; None: all live."""
        ends = sorted([*self.exits.values(), *([self.front.ended] if self.front.ended else [])], key=lambda end: end.at)
        if not ends:
            return None
        code = ends[0].code
        return 128 - code if code < 0 else code

    def _leader(self) -> tuple[dict[str, str], tuple[int, ...]]:
        end = self._ends[0].fileno()
        return {LINE_FD: str(end)}, (end,)

    def _start_front(self, port: int) -> Front:
        end = self._ends[1].fileno()
        log = self.folder / LOGS / LAUNCHER_LOG
        return Front(self.folder, self._environment({LINE_FD: str(end)}), log, port, engine_front.PROGRAM, (end,))
