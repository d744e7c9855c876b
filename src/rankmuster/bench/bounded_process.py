"""One process of a benchmark: in a group of its own, with its output in a file, ended by a time limit with all of it.

A benchmark that hangs is the very thing that it is run to find, so nothing here waits for ever: the group is killed,
and what does not even die of that (a driver that does not answer) is left behind and said.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05
"""Between looks at the process and its output; a benchmark lasts seconds to minutes."""

KILL_SECONDS = 5.0
"""For a killed process to go. CUDA's teardown after SIGKILL is the kernel driver's: seconds with many GPUs."""

MOST_OUTPUT = 256 << 20
"""Bytes of output at which it is stopped: an endless writer would fill the disk that the evidence goes to."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. `status`: exit status, negative for a signal, None where it was killed or could not be started.

    `output`: what it printed, stdout and stderr as they came. `problem`: why it could not be started. `stuck`: it is
    still there after SIGKILL. `flooded`: it was stopped since its output had no end.
    """

    output: bytes
    status: int | None
    timed_out: bool = False
    flooded: bool = False
    stuck: bool = False
    problem: str | None = None

    @property
    def story(self) -> str:
        """What came of it, to follow a name in a sentence; empty where it ended by itself with status 0."""
        if self.problem is not None:
            return f"could not be started ({self.problem})"
        left = "; it did not even die of SIGKILL and was left behind" if self.stuck else ""
        if self.timed_out:
            return f"did not end in time and was killed with all its group{left}"
        if self.flooded:
            return f"printed without end and was killed{left}"
        if self.status is not None and self.status < 0:
            with contextlib.suppress(ValueError):
                return f"died of {signal.Signals(-self.status).name}"
            return f"died of signal {-self.status}"
        return f"ended with status {self.status}" if self.status else ""


def run_bounded(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    seconds: float,
    folder: Path | None = None,
    started: Callable[[int], None] | None = None,
    looked: Callable[[], None] | None = None,
) -> Ended:
    """Runs a program without input, with exactly `environment`, its output in the file `output`.

    `started` is told its pid (its group has the same number), `looked` is called now and then while it runs.
    Never raises for what the program does; on an exception of the caller's (Ctrl-C) the group is killed too.
    """
    with output.open("wb") as sink:
        try:
            process = subprocess.Popen(  # noqa: S603  # a list of ours, no shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ended(b"", None, problem=getattr(error, "strerror", None) or str(error))
    end = time.monotonic() + seconds
    timed_out = flooded = False
    try:
        if started is not None:
            started(process.pid)
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
            if process.poll() is not None:
                break
            timed_out = time.monotonic() >= end
            flooded = output.stat().st_size > MOST_OUTPUT
            if timed_out or flooded:
                break
            if looked is not None:
                looked()
    finally:
        stuck = not _end_group(process)
    killed = timed_out or flooded
    return Ended(_read(output), None if killed else process.returncode, timed_out, flooded, stuck)


def _end_group(process: subprocess.Popen[bytes]) -> bool:
    """Kills what is left of the group; True: the process itself is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read(output: Path) -> bytes:
    with output.open("rb") as file:
        return file.read(MOST_OUTPUT)
