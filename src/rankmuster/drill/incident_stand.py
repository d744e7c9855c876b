"""All that an incident needs, as real programs beside each other.

An engine under `rankmuster run`, HAProxy before it (or nothing, where it is not installed), a `rankmuster watch` that
only looks, and `rankmuster incident serve`, which acts.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rankmuster.adapters.supervisor_wire import socket_path
from rankmuster.drill import rank_settings
from rankmuster.drill.apart import is_ours
from rankmuster.drill.engine_folder import RECORD, EngineFolder, FaultOrder, Incarnation
from rankmuster.drill.engine_record import Recorded, What, read
from rankmuster.drill.faults import Fault, When
from rankmuster.drill.incident_gateway import Gateway
from rankmuster.drill.incident_settings import Places, settings
from rankmuster.drill.launch import Launched, bound
from rankmuster.drill.plan import TALLY, Backend
from rankmuster.drill.run import PROGRAM
from rankmuster.drill.tally import Tally
from rankmuster.drill.watcher import WATCH, Watcher

ENGINE = (sys.executable, "-u", "-m", "rankmuster.drill.engine")
POLL_SECONDS = 0.05
END_SECONDS = 10.0
SAID_BYTES = 1500


class StandFailed(Exception):
    """A program of the stand is not where it should be; says which, with its last words."""


@dataclass(frozen=True, slots=True)
class StandOrder:
    """What engine, and how it is watched. `engine`: more options of it; `collect`: of collect. `extra`: variables.

    `gateway`: whether HAProxy stands before it; without one clients ask the engine itself. `start_seconds`: within
    which an incarnation has to serve, for the watch; None: it is not told.
    """

    instance: str
    backend: Backend
    ranks: int
    graph: bool = False
    period: float = 4.0
    ras_port: int = 28128
    engine: Sequence[str] = ()
    collect: Sequence[str] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    gateway: bool = True
    start_seconds: float | None = None

    def engine_line(self, folder: Path, port: int) -> list[str]:
        """The engine's command line."""
        line = [*ENGINE, str(folder), "--port", str(port), "--ranks", str(self.ranks), "--backend", self.backend.value]
        line += ["--ras-port", str(self.ras_port), *(["--graph"] if self.graph else [])]
        return [*line, "--owner", str(os.getpid()), *self.engine]


class Stand:
    """To be used in a `with`; nothing of it outlives the block. `folder` (new) keeps what everybody wrote. `fault` is
    what the first incarnation is to have. `address`: where clients ask. Raises StandFailed or OSError."""

    def __init__(self, wanted: StandOrder, folder: Path, fault: FaultOrder | None) -> None:
        folder = folder.absolute()
        self.wanted, self.folder = wanted, folder
        self.engine = EngineFolder(folder / "engine")
        if fault is not None:
            self.engine.order(fault)
        self._programs: dict[str, Launched] = {}
        self._kept = ExitStack()

    def __enter__(self) -> Stand:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        wanted = self.wanted
        # The paths of sockets must be short; where a drill's output goes, somebody else decides.
        sockets = Path(self._kept.enter_context(tempfile.TemporaryDirectory(prefix="rankmuster-")))
        with bound() as free:
            port = free.getsockname()[1]
        self.places = Places(
            instance=wanted.instance,
            port=port,
            gateway=sockets / "haproxy.sock" if wanted.gateway else None,
            supervisor=socket_path(sockets, wanted.instance),
            watch=self.folder / "watch" / "state",
            journal=self.folder / "incidents.db",
            folder=self.folder / "incidents",
        )
        self.places.folder.mkdir(parents=True)
        self.address = ("127.0.0.1", port)
        if self.places.gateway is not None:
            gateway = self._kept.enter_context(Gateway(self.folder / "gateway", self.places.gateway, port))
            self.address = gateway.address
        run = [*PROGRAM, "run", "--instance", wanted.instance, "--folder", str(sockets), "--on-end", "wait"]
        run += ["--metrics-url", f"{self.places.url}/metrics", "--evidence", str(self.folder / "evidence")]
        self._launch("run", [*run, "--", *wanted.engine_line(self.engine.path, port)])
        page = f"{self.places.url}/metrics"
        watcher = Watcher(self._watch(), wanted.instance, page, wanted.period, self.folder / "watch")
        self.watcher = self._kept.enter_context(watcher)
        config = self.folder / "incident.yaml"
        config.write_text(settings(self.places, tuple(wanted.collect)))
        self._launch("serve", [*PROGRAM, "incident", "serve", "--config", str(config)])

    def _watch(self) -> list[str]:
        """The watch's command line; what only a file of settings can tell it stands in one."""
        line = [*WATCH, "--no-collect"]
        if self.wanted.start_seconds is not None:
            config = self.folder / "watch.yaml"
            config.write_text(f"start_seconds: {self.wanted.start_seconds:g}\n")
            line += ["--config", str(config)]
        return line

    def _launch(self, name: str, command: Sequence[str]) -> None:
        environment = {**os.environ, **self.wanted.extra}
        self._programs[name] = Launched(command, environment, self.folder / f"{name}.log", tied=True)

    def check(self) -> None:
        """Raises StandFailed when a program has ended that should run."""
        for name, process in self._programs.items():
            if process.end is not None:
                raise StandFailed(f"{name} ended with status {process.end.code} and said last: {self.said(name)}")
        if self.watcher.ended is not None:
            raise StandFailed(self.watcher.ended)

    def said(self, name: str) -> str:
        """The last words of a program."""
        with suppress(OSError):
            return (self.folder / f"{name}.log").read_bytes()[-SAID_BYTES:].decode(
                errors="replace"
            ).strip() or "nothing"
        return "nothing"

    def until(self, there: Callable[[], bool], seconds: float, what: str, *, checked: bool = True) -> None:
        """Waits. Raises StandFailed when it does not come, or a program ends."""
        end = time.monotonic() + seconds
        while not there():
            if checked:
                self.check()
            if time.monotonic() > end:
                raise StandFailed(f"not {what} within {seconds:.0f} s; incident serve said last: {self.said('serve')}")
            time.sleep(POLL_SECONDS)

    def record(self, number: int) -> list[Recorded]:
        """What the front end of an incarnation has written down so far."""
        return list(read(self.engine.of(number) / RECORD))

    def serves(self, number: int) -> bool:
        """Whether that incarnation's address is open."""
        return any(one.what is What.READY for one in self.record(number))

    def about(self, number: int) -> Incarnation | None:
        """Who an incarnation is; None before it has said so."""
        return self.engine.about(number) if number in self.engine.numbers else None

    def keep_settings(self) -> None:
        """Writes down what the first incarnation's ranks talk by, beside everything else of this run."""
        about = self.about(1)
        if about is not None and about.ranks:
            rank_settings.keep(about.ranks[0], self.folder)

    def inject(self, fault: Fault, culprit: int, seconds: float) -> float:
        """Makes the fault in the first incarnation; when it was made, unix seconds. Raises StandFailed."""
        with Tally(self.engine.of(1) / TALLY) as tally:
            if fault.when is When.OUTSIDE and fault.signal is not None:
                about = self.about(1)
                if about is None or len(about.ranks) <= culprit:
                    raise StandFailed(f"rank {culprit} is not known")
                if not is_ours(about.ranks[culprit], self.engine.of(1)):
                    raise StandFailed(f"pid {about.ranks[culprit]} is no rank of this engine any more")
                made = time.time()
                os.kill(about.ranks[culprit], fault.signal)
                return made
            tally.armed = True
            self.until(lambda: bool(tally.fault_at), seconds, f"in the fault {fault.name}", checked=False)
            return tally.fault_at / 1e9

    def stop(self) -> None:
        """Ends everything; may be called twice. Raises StandFailed when a rank is not gone."""
        for name in ("serve", "run"):
            process = self._programs.get(name)
            if process is not None and process.end is None:
                with suppress(ProcessLookupError):
                    process.signal(signal.SIGTERM)
                _wait(lambda one=process: one.end is not None, END_SECONDS)  # type: ignore[misc]
        for process in self._programs.values():
            process.kill()
            process.gone()
        self._kept.close()
        left = [pid for number in self.engine.numbers for pid in self._pids(number)]
        if not _wait(lambda: not any(_alive(pid) for pid in left), END_SECONDS):
            raise StandFailed(f"of the ranks {left} some are still there after everything was ended")

    def _pids(self, number: int) -> tuple[int, ...]:
        about = self.about(number)
        return () if about is None else about.ranks


def _wait(there: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _alive(pid: int) -> bool:
    """A zombie that nobody waits for is none any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
