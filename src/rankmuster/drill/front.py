"""The process that is a drill's front end, and what can happen to it while the ranks go on."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankmuster.drill.launch import END_SECONDS, End, Launched, bound

SERVER = (sys.executable, "-u", "-m", "rankmuster.drill.server")


class FrontFailed(OSError):
    """What was to be done to it could not be done."""


class Front:
    """Started at once. `port`: 0 for any that is free; it stays the same whatever happens. `program`: what is started,
    with the folder and its options added; `handed`: descriptors that it keeps. Raises OSError."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        port: int = 0,
        program: Sequence[str] = SERVER,
        handed: tuple[int, ...] = (),
    ) -> None:
        self._folder, self._environment, self._log = folder, environment, log
        self._program, self._handed = tuple(program), handed
        self._address = ("127.0.0.1", port)
        self._process = self._start(anew=False)

    @property
    def url(self) -> str:
        """Of its metrics page."""
        return f"http://{self._address[0]}:{self._address[1]}/metrics"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._address[1]

    @property
    def pid(self) -> int:
        """Of the process that is it now."""
        return self._process.pid

    @property
    def ended(self) -> End | None:
        """How it ended; None while it is there."""
        return self._process.end

    @property
    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            socket.create_connection(self._address, timeout=1.0).close()
        except OSError:
            return False
        return True

    def signal(self, number: int) -> None:
        """Raises FrontFailed when it has ended."""
        if self._process.end is not None:
            raise FrontFailed(f"the front end, pid {self.pid}, ended before signal {number}; its log is {self._log}")
        self._process.signal(number)

    def renew(self) -> None:
        """Ends it and starts another at the same address, whose counters begin at zero. Raises FrontFailed, OSError."""
        self.kill()
        if not self.gone():
            raise FrontFailed(f"the front end, pid {self.pid}, was killed and is not gone after {END_SECONDS:.0f} s")
        self._process = self._start(anew=True)

    def kill(self) -> None:
        """SIGKILL to it and to what it started."""
        self._process.kill()

    def gone(self) -> bool:
        """Waits up to `END_SECONDS` for its end."""
        return self._process.gone()

    def _start(self, *, anew: bool) -> Launched:
        with bound(self._address[1]) as listening:
            self._address = listening.getsockname()[:2]
            host, port = self._address
            line = [*self._program, str(self._folder), "--parent", str(os.getpid())]
            line += ["--fd", str(listening.fileno()), "--host", host, "--port", str(port)]
            line += ["--anew", "1"] if anew else []
            return Launched(line, self._environment, self._log, (listening.fileno(), *self._handed))
