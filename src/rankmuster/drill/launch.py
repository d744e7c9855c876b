"""Starts the processes of a job, knows when each ended, and ends them all with everything that they started."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.drill.apart import SAFE_FOLDER
from rankmuster.drill.tether import bind_to_parent, kill_session

END_SECONDS = 10.0
"""How long a killed process may take to be gone; one that waits in the kernel for a GPU takes seconds."""


@dataclass(frozen=True, slots=True)
class End:
    """`code`: exit status, or -N for signal N. `at`: unix seconds at which the parent saw it."""

    code: int
    at: float


class Launched:
    """One process in a session of its own, watched by a thread. `on_end` is called there, once."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        handed: tuple[int, ...] = (),
        on_end: Callable[[int, End], None] | None = None,
        *,
        tied: bool = False,
    ) -> None:
        """Starts it, its output and errors appended to `log`; `handed`: descriptors that it keeps. `tied`: it ends with
        the thread that starts it. All paths of `command` have to be absolute. Raises OSError."""
        self.end: End | None = None
        self._on_end = on_end
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  # our own programs
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=handed,
                start_new_session=True,
                cwd=SAFE_FOLDER,
                preexec_fn=bind_to_parent if tied else None,  # one system call of the C library
            )
        self.pid = self._process.pid
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        code = self._process.wait()
        kill_session(self.pid)  # now, while nobody else can have got the number
        self.end = End(code, time.time())
        if self._on_end is not None:
            self._on_end(self.pid, self.end)

    def signal(self, number: int) -> None:
        """Sends a signal to the process alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to it and to what it started; what an ended one had started is gone already."""
        if self.end is None:
            kill_session(self.pid)

    def gone(self) -> bool:
        """Waits up to `END_SECONDS` for its end."""
        self._watcher.join(END_SECONDS)
        return self.end is not None


def bound(port: int = 0) -> socket.socket:
    """A socket on loopback with a port of its own: nobody else can take it before it is used.

    `port`: one that was used before, by a process that has ended. Raises OSError when another has it.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        # For a later one on this port; set before, the kernel could give a port that another waits on.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        made.close()
        raise
    return made
