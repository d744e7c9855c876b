"""A drill's job while it runs: its ranks, its front end, what they did so far, and their certain end."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType

from rankmuster.drill.faults import Fault, When, fault_named
from rankmuster.drill.front import Front
from rankmuster.drill.launch import END_SECONDS, End, Launched, bound
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.orders import Orders
from rankmuster.drill.plan import LEDGER, LOGS, ORDERS, PLAN, STEPS, STORE_FD, TALLY, JobPlan
from rankmuster.drill.surroundings import MARKER
from rankmuster.drill.tally import RankState, Tally

WORKER = (sys.executable, "-u", "-m", "rankmuster.drill.worker")
LAUNCHER_LOG = "launcher.log"

POLL_SECONDS = 0.02
"""Between two looks at what the job's processes told; the steps are not disturbed by it."""
BACKLOG = 128
"""Connections that may wait at the store while its rank still loads torch."""
SAID_BYTES = 1500
"""Of a rank's own last words in an error."""


class JobFailed(Exception):
    """The job did not come to where it should be; says who did what, with the rank's last words."""


class DrillJob:
    """One job, to be used in a `with`: whatever happens inside, no process of it outlives the block.

    `environment`: added to this program's own for every rank (recorder, pipes, logs, RAS address, instance marker).
    `folder`: becomes the job's own; logs/, flight/, pipes/ and nccl/ are made in it. `worker`: what is started for each
    rank, with the folder and `--parent PID` added. `port`: of the front end, 0 for any. Has to be started in a thread
    that lives as long as the job.
    """

    def __init__(
        self,
        plan: JobPlan,
        environment: Mapping[str, str],
        folder: Path,
        *,
        worker: Sequence[str] = WORKER,
        port: int = 0,
    ) -> None:
        self.plan, self.folder = plan, folder
        self.fault: Fault = fault_named(plan.fault)
        self.environment = {MARKER: plan.instance, **environment}
        self.started_at = 0.0
        self.metrics_url: str | None = None
        self._worker = tuple(worker)
        self._port = port
        self._ranks: dict[int, Launched] = {}
        self._front: Front | None = None
        self._tally: Tally | None = None

    def __enter__(self) -> DrillJob:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every process; raises OSError when one cannot be started."""
        for part in (LOGS, "flight", "pipes", "nccl"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / PLAN).write_text(self.plan.to_json())
        self._tally = Tally.create(self.folder / TALLY, self.plan.ranks)
        Ledger.create(self.folder / LEDGER).close()
        Orders.create(self.folder / ORDERS).close()
        self.started_at = time.time()
        with bound() as store:
            store.listen(BACKLOG)
            for rank in range(self.plan.ranks):
                self._ranks[rank] = self._start_rank(rank, store)
        self._front = self._start_front(self._port)
        self.metrics_url = self._front.url

    def _start_rank(self, rank: int, store: socket.socket) -> Launched:
        count = str(self.plan.ranks)
        more = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        more |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.getsockname()[1])}
        handed: tuple[int, ...] = ()
        if rank == 0:
            own, kept = self._leader()
            more |= {STORE_FD: str(store.fileno()), **own}
            handed = (store.fileno(), *kept)
        log = self.folder / LOGS / f"rank{rank}.log"
        return Launched(self._line(self._worker), self._environment(more), log, handed, partial(self._ended, rank))

    def _leader(self) -> tuple[dict[str, str], tuple[int, ...]]:
        """What rank 0 gets besides: variables, and descriptors that it keeps."""
        return {}, ()

    def _start_front(self, port: int) -> Front:
        return Front(self.folder, self._environment({}), self.folder / LOGS / LAUNCHER_LOG, port)

    def _line(self, command: Sequence[str]) -> list[str]:
        return [*command, str(self.folder), "--parent", str(os.getpid())]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **self.environment, **more}

    def _ended(self, rank: int, pid: int, end: End) -> None:
        """Says in the launcher's log that a rank ended, in the words of torchrun."""
        stamp = datetime.fromtimestamp(end.at).strftime("%m%d %H:%M:%S.%f")
        line = f"E{stamp} {os.getpid()} launcher.py:1] failed (exitcode: {end.code}) local_rank: {rank} (pid: {pid})"
        with (self.folder / LOGS / LAUNCHER_LOG).open("a") as log:
            log.write(f"{line} of binary: {self._worker[0]}\n")

    @property
    def tally(self) -> Tally:
        """What the ranks told; raises JobFailed before the start and after the end."""
        if self._tally is None:
            raise JobFailed(f"the job in {self.folder} is not running")
        return self._tally

    @property
    def pids(self) -> dict[int, int]:
        """Pid of each rank that was started, ended or not."""
        return {rank: process.pid for rank, process in self._ranks.items()}

    @property
    def server_pid(self) -> int | None:
        """Pid of the front end."""
        return self._front.pid if self._front else None

    @property
    def exits(self) -> dict[int, End]:
        """The ranks that have ended, and how."""
        return {rank: process.end for rank, process in self._ranks.items() if process.end is not None}

    @property
    def exit_codes(self) -> dict[int, int | None]:
        """None: still there. -N: ended by signal N."""
        return {rank: process.end.code if process.end else None for rank, process in self._ranks.items()}

    @property
    def steps(self) -> int:
        """Steps finished so far."""
        return self.tally.steps

    @property
    def steps_file(self) -> Path:
        """Where rank 0 writes how long each block of steps took, see `overhead.read_steps`."""
        return self.folder / STEPS

    @property
    def fault_at(self) -> float | None:
        """Unix seconds at which the fault was made; None: not yet, or there is none."""
        return self.tally.fault_at / 1e9 or None

    def wait_serving(self, seconds: float, *, steps: int = 0) -> float:
        """Waits until every rank serves and `steps` are done; returns the seconds that took.

        A job whose fault is that a rank never joins has come there when all ranks are loaded and the fault is made.
        Raises JobFailed when a rank ends first, or the time is over.
        """
        if self.fault.when is When.START:
            return self._wait(seconds, lambda: self._all(RankState.LOADED) and bool(self.tally.fault_at), "loaded")
        return self._wait(seconds, lambda: self._serves(steps), "serving")

    def inject(self, seconds: float) -> float | None:
        """Makes the fault and waits until it is made; returns its time in unix seconds, None when there is none.

        Raises JobFailed when the rank did not make it in time.
        """
        if self.fault.when is When.OUTSIDE:
            assert self.fault.signal is not None
            self.tally.fault_at = time.time_ns()
            self.signal(self.plan.culprit, self.fault.signal)
        elif self.fault.when is When.ARMED:
            self.tally.armed = True
            self._wait(seconds, lambda: bool(self.tally.fault_at), f"in the fault {self.fault.name}", ends_allowed=True)
        return self.fault_at

    def resume(self) -> None:
        """Takes back the word: ranks that rest go on. What a rank did already stays done."""
        self.tally.armed = False
        self.tally.fault_at = 0

    def signal(self, rank: int, number: int) -> None:
        """Sends a signal to one rank; raises JobFailed when that rank has ended."""
        if rank in self.exits:
            raise JobFailed(f"rank {rank} ended before signal {number} ({self._story(rank)})")
        self._ranks[rank].signal(number)

    @property
    def front(self) -> Front:
        """The front end; raises JobFailed before the start."""
        if self._front is None:
            raise JobFailed(f"the job in {self.folder} is not running")
        return self._front

    def _serves(self, steps: int) -> bool:
        return self._all(RankState.SERVING) and self.tally.steps >= steps and self.front.answers

    def _all(self, state: RankState) -> bool:
        return all(self.tally.state(rank) >= state for rank in range(self.plan.ranks))

    def _wait(self, seconds: float, there: Callable[[], bool], what: str, *, ends_allowed: bool = False) -> float:
        begun = time.monotonic()
        while not there():
            gone = next(iter(self.exits), None)
            if gone is not None and not ends_allowed:
                raise JobFailed(f"the job is not {what}: {self._story(gone)}")
            if time.monotonic() - begun > seconds:
                raise JobFailed(f"the job is not {what} after {seconds:.0f} s: {self._where()}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - begun

    def _where(self) -> str:
        states = ", ".join(
            f"rank {rank} {self.tally.state(rank).name.lower()}"
            + (f" (ended with {self.exits[rank].code})" if rank in self.exits else "")
            for rank in range(self.plan.ranks)
        )
        slowest = min(range(self.plan.ranks), key=lambda rank: self.tally.state(rank))
        return f"{states}, {self.tally.steps} steps; {self._story(slowest)}"

    def _story(self, rank: int) -> str:
        end = self._ranks[rank].end
        how = f"ended with status {end.code}" if end is not None else "is still there"
        try:
            said = (self.folder / LOGS / f"rank{rank}.log").read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
        except OSError as error:
            said = f"its log cannot be read: {error}"
        return f"rank {rank} {how} and said last: {said or 'nothing'}"

    def stop(self) -> None:
        """Kills every process of the job and what they started; may be called at any time, and twice.

        Raises JobFailed when one is not gone after `END_SECONDS`.
        """
        processes: list[Launched | Front] = [*self._ranks.values(), *([self._front] if self._front else [])]
        for process in processes:
            process.kill()
        left = [process.pid for process in processes if not process.gone()]
        if self._tally is not None:
            self._tally.close()
            self._tally = None
        if left:
            raise JobFailed(f"pids {left} were killed and are not gone after {END_SECONDS:.0f} s: held in the kernel")

    def facts(self) -> dict[str, object]:
        """What a supervisor knows of the job now, as `instance.json` of a bundle."""
        return {
            "instance": self.plan.instance,
            "world_size": self.plan.ranks,
            "started_at": self.started_at,
            "last_look": time.time(),
            "processes": [
                {
                    "rank": rank,
                    "pid": process.pid,
                    "host": socket.gethostname().split(".")[0],
                    "exit_code": process.end.code if process.end else None,
                    "exited_at": process.end.at if process.end else None,
                }
                for rank, process in self._ranks.items()
            ],
        }
