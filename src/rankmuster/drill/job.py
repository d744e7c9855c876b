"""A drill's job while it runs: its ranks, its front end, what they did so far, and their certain end."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from rankmuster.drill import job_words
from rankmuster.drill.fault_needs import obstacle
from rankmuster.drill.fault_surroundings import merged, rank_variables
from rankmuster.drill.faults import Fault, Place, When, fault_named
from rankmuster.drill.front import Front
from rankmuster.drill.job_folder import prepared
from rankmuster.drill.launch import END_SECONDS, End, Launched, bound
from rankmuster.drill.link import Link
from rankmuster.drill.own_place import wait_apart
from rankmuster.drill.plan import LOGS, STEPS, STORE_FD, JobPlan
from rankmuster.drill.surroundings import MARKER
from rankmuster.drill.tally import RankState, Tally

WORKER = (sys.executable, "-u", "-m", "rankmuster.drill.worker")
LAUNCHER_LOG = "launcher.log"

POLL_SECONDS = 0.02
"""Between two looks at what the job's processes told; the steps are not disturbed by it."""
BACKLOG = 128
"""Connections that may wait at the store while its rank still loads torch."""


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
        self.plan, self.folder = plan, folder.absolute()
        self.fault: Fault = fault_named(plan.fault)
        self.environment = {MARKER: plan.instance, **environment}
        self.started_at = 0.0
        self.metrics_url: str | None = None
        self._worker = tuple(worker)
        self._port = port
        self._ranks: dict[int, Launched] = {}
        self._front: Front | None = None
        self._tally: Tally | None = None
        self._link: Link | None = None

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
        """Starts every process. Raises OSError when one cannot be started, JobFailed when its fault cannot be made."""
        if why := obstacle(self.fault):
            raise JobFailed(why)
        self._tally = prepared(self.folder, self.plan)
        self.started_at = time.time()
        self._ranks = {}
        self._link = Link() if self.fault.place is Place.OWN_NETWORK else None
        with bound() if self._link is None else self._link.store() as store:
            store.listen(BACKLOG)
            if self.fault.place in (Place.OWN_NETWORK, Place.SMALL_SHM):  # the others share what surrounds it
                self._start_first(store)
            for rank in range(self.plan.ranks):
                if rank not in self._ranks:
                    self._start_rank(rank, store)
        self._front = self._start_front(self._port)
        self.metrics_url = self._front.url

    def _start_first(self, store: socket.socket) -> None:
        process = self._start_rank(self.plan.culprit, store)
        if self._link is not None:
            self._link.join(process.pid, lambda: process.end is None)
        elif not wait_apart(process.pid, "mnt", lambda: process.end is None):
            raise JobFailed(f"no mount namespace of its own: {self._story(self.plan.culprit)}")

    def _start_rank(self, rank: int, store: socket.socket) -> Launched:
        first = next((process.pid for process in self._ranks.values()), None)
        more, handed = rank_variables(self.plan, rank, store, self._link, first), tuple[int, ...]()
        if rank == 0:
            own, kept = self._leader()
            more |= {STORE_FD: str(store.fileno()), **own}
            handed = (store.fileno(), *kept)
        environment, ended = merged(self._environment({}), more), partial(self._ended, rank)
        self._ranks[rank] = Launched(self._line(self._worker), environment, self._log(rank), handed, ended)
        return self._ranks[rank]

    def _log(self, rank: int) -> Path:
        return self.folder / LOGS / f"rank{rank}.log"

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
        with (self.folder / LOGS / LAUNCHER_LOG).open("a") as log:
            log.write(job_words.ended_line(self._worker[0], rank, pid, end))

    @property
    def tally(self) -> Tally:
        """What the ranks told; raises JobFailed before the start and after the end."""
        if self._tally is None:
            raise JobFailed(f"the job in {self.folder} is not running")
        return self._tally

    @property
    def pids(self) -> dict[int, int]:
        """Pid of each rank that was started, ended or not."""
        return {rank: self._ranks[rank].pid for rank in sorted(self._ranks)}

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

        A job whose fault is made at its start has come there when all healthy ranks are loaded and the fault is made.
        Raises JobFailed when a healthy rank ends first, or the time is over.
        """
        if self.fault.when is When.START:
            return self._wait(seconds, self._meets, "loaded", spared=(self.plan.culprit,))
        return self._wait(seconds, lambda: self._serves(steps), "serving")

    def inject(self, seconds: float) -> float | None:
        """Makes the fault and waits until it is made; returns its time in unix seconds, None when there is none.

        Raises JobFailed when the rank did not make it in time.
        """
        if self.fault.when is When.OUTSIDE:
            self.make()
        elif self.fault.when is When.ARMED:
            self.tally.armed = True
            everyone = range(self.plan.ranks)
            self._wait(seconds, lambda: bool(self.tally.fault_at), f"in the fault {self.fault.name}", spared=everyone)
        return self.fault_at

    def make(self) -> None:
        """Makes a fault that comes from outside. Raises JobFailed, or LinkFailed when the link is not cut."""
        self.tally.fault_at = time.time_ns()
        if self._link is not None:
            self._link.cut()
        elif self.fault.signal is not None:
            self.signal(self.plan.culprit, self.fault.signal)

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

    def _meets(self) -> bool:
        """Whether all that can come together has: a culprit whose surroundings end it may never be loaded."""
        loaded = (
            self.tally.state(rank) >= RankState.LOADED or (rank == self.plan.culprit and rank in self.exits)
            for rank in range(self.plan.ranks)
        )
        return bool(self.tally.fault_at) and all(loaded)

    def _wait(self, seconds: float, there: Callable[[], bool], what: str, *, spared: Collection[int] = ()) -> float:
        """`spared`: ranks that may end meanwhile."""
        begun = time.monotonic()
        while not there():
            gone = next((rank for rank in self.exits if rank not in spared), None)
            if gone is not None:
                raise JobFailed(f"the job is not {what}: {self._story(gone)}")
            if time.monotonic() - begun > seconds:
                raise JobFailed(f"the job is not {what} after {seconds:.0f} s: {self._where()}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - begun

    def _where(self) -> str:
        states = {rank: self.tally.state(rank) for rank in range(self.plan.ranks)}
        slowest = min(states, key=lambda rank: states[rank])
        return f"{job_words.states(states, self.exits)}, {self.tally.steps} steps; {self._story(slowest)}"

    def _story(self, rank: int) -> str:
        return job_words.story(rank, self._ranks[rank].end, self._log(rank))

    def stop(self) -> None:
        """Kills every process of the job and what they started; may be called at any time, and twice.

        Raises JobFailed when one is not gone after `END_SECONDS`.
        """
        processes: list[Launched | Front] = [*self._ranks.values(), *([self._front] if self._front else [])]
        for process in processes:
            process.kill()
        left = [process.pid for process in processes if not process.gone()]
        if self._link is not None:
            self._link.close()
        if self._tally is not None:
            self._tally.close()
            self._tally = None
        if left:
            raise JobFailed(f"pids {left} were killed and are not gone after {END_SECONDS:.0f} s: held in the kernel")

    def facts(self) -> dict[str, object]:
        """What a supervisor knows of the job now, as `instance.json` of a bundle."""
        return job_words.facts(self.plan, self.started_at, dict(sorted(self._ranks.items())))
