"""A real `rankmuster run` for tests, its client, and what its command leaves in /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from rankmuster.adapters.supervisor import Supervisor
from rankmuster.adapters.supervisor_wire import socket_path
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import GroupLook, GroupState

SECONDS = 30.0
RUN = (sys.executable, "-m", "rankmuster.cli.main", "run")


def until(said: Callable[[], object], seconds: float = SECONDS) -> None:
    """Waits for it to be true."""
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


class Run:
    """A started supervisor. `folder` has its socket, `pids` files that its command writes are in `work`."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *options: str,
        name: str,
        environ: Mapping[str, str] | None = None,
        work: Path | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.work = work if work is not None else folder
        self.socket = socket_path(folder, name)
        self.client = Supervisor(name, self.socket)
        # files: pipes would be held open by what a killed supervisor leaves behind
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # `close` does it
        self.process = subprocess.Popen(
            [*RUN, "--instance", name, "--folder", str(folder), "--profile", "none", *options, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env={**os.environ, **(environ or {})},
            cwd=self.work,
            start_new_session=True,
        )

    def look(self) -> GroupLook:
        return self.client.look(Deadline.after(SECONDS))

    def running(self) -> GroupLook:
        """Waits for the command to run."""
        found: list[GroupLook] = []

        def runs() -> bool:
            assert self.process.poll() is None, self.errors()
            found.append(self.look())
            return found[-1].state is GroupState.RUNNING

        until(runs)
        return found[-1]

    def pid_of(self, file: str) -> int:
        """The number that a process of the command has written into a file."""
        path = self.work / file
        until(lambda: path.is_file() and path.read_text(encoding="ascii").endswith("\n"))
        return int(path.read_text(encoding="ascii"))

    def ended(self) -> int:
        """Its exit status, with what it said kept."""
        status = self.process.wait(SECONDS)
        self.out, self.err = (self._whole(file) for file in (self._out, self._err))
        return status

    def close(self) -> None:
        self._out.close()
        self._err.close()

    @staticmethod
    def _whole(file: IO[bytes]) -> bytes:
        file.seek(0)
        return file.read()

    def errors(self) -> str:
        self.ended()
        return self.err.decode()


@contextlib.contextmanager
def cleaned(folder: Path) -> Iterator[list[Run]]:
    """Ends what is left of the runs that the block puts into the list, with SIGKILL at last."""
    runs: list[Run] = []
    try:
        yield runs
    finally:
        for run in runs:
            if run.process.poll() is None:
                run.process.send_signal(signal.SIGTERM)
                run.process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.process.wait(SECONDS)
                run.process.kill()
            run.process.wait()
            run.close()
        _sweep(folder)


def _sweep(folder: Path) -> None:
    """Whoever still works in the folder of the test."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/cwd").startswith(str(folder)) and int(entry) != os.getpid():
                    os.kill(int(entry), signal.SIGKILL)
