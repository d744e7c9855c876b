"""A drill's job while it runs: its ranks, its front end, what they did so far, and their certain end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType

from rankmuster.drill.faults import Fault, When, fault_named
from rankmuster.drill.plan import LOGS, PLAN, STEPS, STORE_FD, TALLY, JobPlan
from rankmuster.drill.surroundings import MARKER
from rankmuster.drill.tally import RankState, Tally
from rankmuster.drill.tether import kill_session

WORKER = (sys.executable, "-u", "-m", "rankmuster.drill.worker")
SERVER = (sys.executable, "-u", "-m", "rankmuster.drill.server")
LAUNCHER_LOG = "launcher.log"

POLL_SECONDS = 0.02
"""Between two looks at what the job's processes told; the steps are not disturbed by it."""
END_SECONDS = 10.0
"""How long a killed process may take to be gone; one that waits in the kernel for a GPU takes seconds."""
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
    rank, with the folder and `--parent PID` added. Has to be started in a thread that lives as long as the job.
    """

    def __init__(
        self, plan: JobPlan, environment: Mapping[str, str], folder: Path, *, worker: Sequence[str] = WORKER
    ) -> None:
        self.plan, self.folder = plan, folder
        self.fault: Fault = fault_named(plan.fault)
        self.environment = {MARKER: plan.instance, **environment}
        self.exits: dict[int, tuple[int, float]] = {}
        self.started_at = 0.0
        self.metrics_url: str | None = None
        self._front: tuple[str, int] | None = None
        self._worker = tuple(worker)
        self._ranks: dict[int, subprocess.Popen[bytes]] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._watchers: list[threading.Thread] = []
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
        self.started_at = time.time()
        with _bound() as store, _bound() as front:
            store.listen(BACKLOG)
            for rank in range(self.plan.ranks):
                self._start_rank(rank, store)
            self._start_server(front)

    def _start_rank(self, rank: int, store: socket.socket) -> None:
        count = str(self.plan.ranks)
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.getsockname()[1])}
        handed = (store.fileno(),) if rank == 0 else ()
        more = {STORE_FD: str(store.fileno())} if rank == 0 else {}
        log = self.folder / LOGS / f"rank{rank}.log"
        process = self._start(self._worker, log, {**own, **meeting, **more}, handed)
        self._ranks[rank] = process
        watcher = threading.Thread(target=self._watch, args=(rank, process), daemon=True)
        watcher.start()
        self._watchers.append(watcher)

    def _start_server(self, front: socket.socket) -> None:
        host, port = front.getsockname()[:2]
        options = ("--fd", str(front.fileno()), "--host", host, "--port", str(port))
        log = self.folder / LOGS / LAUNCHER_LOG
        self._server = self._start(SERVER, log, {}, (front.fileno(),), options)
        self._front = (host, port)
        self.metrics_url = f"http://{host}:{port}/metrics"

    def _start(
        self,
        command: Sequence[str],
        log: Path,
        more: Mapping[str, str],
        handed: tuple[int, ...],
        options: tuple[str, ...] = (),
    ) -> subprocess.Popen[bytes]:
        line = [*command, str(self.folder), "--parent", str(os.getpid()), *options]
        with log.open("ab") as out:
            return subprocess.Popen(  # noqa: S603  # our own programs
                line,
                env={**os.environ, **self.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=handed,
                start_new_session=True,
            )

    def _watch(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Notes when a rank ends, and says so in the launcher's log in the words of torchrun."""
        code = process.wait()
        ended = time.time()
        self.exits[rank] = (code, ended)
        stamp = datetime.fromtimestamp(ended).strftime("%m%d %H:%M:%S.%f")
        line = (
            f"E{stamp} {os.getpid()} launcher.py:1] failed (exitcode: {code}) local_rank: {rank} (pid: {process.pid})"
        )
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
        return self._server.pid if self._server else None

    @property
    def exit_codes(self) -> dict[int, int | None]:
        """None: still there. -N: ended by signal N."""
        return {rank: self.exits[rank][0] if rank in self.exits else None for rank in self._ranks}

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
        os.kill(self._ranks[rank].pid, number)

    def _serves(self, steps: int) -> bool:
        return self._all(RankState.SERVING) and self.tally.steps >= steps and self._answers()

    def _answers(self) -> bool:
        """Whether the front end takes connections."""
        assert self._front is not None
        try:
            socket.create_connection(self._front, timeout=1.0).close()
        except OSError:
            return False
        return True

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
            + (f" (ended with {self.exits[rank][0]})" if rank in self.exits else "")
            for rank in range(self.plan.ranks)
        )
        slowest = min(range(self.plan.ranks), key=lambda rank: self.tally.state(rank))
        return f"{states}, {self.tally.steps} steps; {self._story(slowest)}"

    def _story(self, rank: int) -> str:
        code = self.exits[rank][0] if rank in self.exits else None
        how = f"ended with status {code}" if code is not None else "is still there"
        try:
            said = (self.folder / LOGS / f"rank{rank}.log").read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
        except OSError as error:
            said = f"its log cannot be read: {error}"
        return f"rank {rank} {how} and said last: {said or 'nothing'}"

    def stop(self) -> None:
        """Kills every process of the job and what they started; may be called at any time, and twice.

        Raises JobFailed when one is not gone after `END_SECONDS`.
        """
        server = [self._server] if self._server else []
        for process in (*self._ranks.values(), *server):
            kill_session(process.pid)
        for watcher in self._watchers:
            watcher.join(END_SECONDS)
        for process in server:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        if self._tally is not None:
            self._tally.close()
            self._tally = None
        left = [process.pid for process in (*self._ranks.values(), *server) if process.returncode is None]
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
                    "pid": pid,
                    "host": socket.gethostname().split(".")[0],
                    "exit_code": self.exit_codes[rank],
                    "exited_at": self.exits[rank][1] if rank in self.exits else None,
                }
                for rank, pid in self.pids.items()
            ],
        }


def _bound() -> socket.socket:
    """A socket on loopback with a port of its own: nobody else can take it before it is used."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("127.0.0.1", 0))
    return made
