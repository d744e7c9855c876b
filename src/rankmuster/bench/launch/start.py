"""Starts a launcher's commands and follows them to their end, or to the time limit.

A launcher that is killed outright leaves its ranks on other nodes running: it is asked to end (SIGTERM, at which mpirun
and torchrun end their ranks and srun passes the signal on), given a moment, and killed then.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.bench.launch.job import Command
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import let_go, ready_bytes

TERM_SECONDS = 8.0
"""What a launcher has to end its ranks after SIGTERM: mpirun and torchrun give them 5 s themselves."""

GRACE_SECONDS = 10.0
"""What the other commands have after one of several has failed: they wait for it, and would to the time limit."""

TICK = 0.5
"""Seconds between two looks at whether a command has ended."""

MOST_ERRORS = 4_096  # bytes of the end of what a launcher prints to standard error


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one command. `code`: None where it did not end by itself, `timed_out`: by the time limit, and not because
    another command had failed; `problem`: why it could not be started."""

    command: Command
    code: int | None
    timed_out: bool
    errors: str
    problem: str | None = None

    @property
    def story(self) -> str:
        """What came of it where it was not well; empty otherwise."""
        name = self.command.argv[0].rpartition("/")[2] + (f" for {self.command.node}" if self.command.node else "")
        if self.problem:
            return f"{name} could not be started ({self.problem})"
        lines = " | ".join([line.strip() for line in self.errors.splitlines() if line.strip()][-3:])
        if self.timed_out:
            return f"{name} did not end in time" + (f" ({lines})" if lines else "")
        return f"{name} ended with status {self.code}" + (f" ({lines})" if lines else "") if self.code else ""


def run(
    commands: Sequence[Command],
    *,
    environment: Mapping[str, str],
    deadline: Deadline,
    hear: Callable[[int, bytes], None],
    folder: Path | None = None,
) -> tuple[Outcome, ...]:
    """Starts all commands; `hear` gets (the command's place, what it printed to standard output), empty at its end.

    Never raises for what the commands do. Returns within `TERM_SECONDS` and a moment of the deadline.
    """
    running: list[subprocess.Popen[bytes] | None] = []
    problems: dict[int, str] = {}
    late: set[int] = set()
    until = deadline
    with tempfile.TemporaryDirectory(prefix="rankmuster-launch-") as made, selectors.DefaultSelector() as selector:
        errors = [Path(made) / f"errors_{number}" for number in range(len(commands))]
        try:
            for number, command in enumerate(commands):
                process, problem = _start(command, environment, errors[number], folder)
                running.append(process)
                if process is None:
                    problems[number] = problem
                    hear(number, b"")
                    continue
                assert process.stdout is not None
                os.set_blocking(process.stdout.fileno(), False)
                selector.register(process.stdout.fileno(), selectors.EVENT_READ, number)
            while any(process is not None and process.poll() is None for process in running) or selector.get_map():
                if until.passed:
                    late = {place for place, one in enumerate(running) if one is not None and one.poll() is None}
                    break
                _listen(selector, until.within(TICK), hear)
                if until is deadline and len(running) > 1 and any(one is None or one.poll() for one in running):
                    until = deadline.within(GRACE_SECONDS)
                if all(process is None or process.poll() is not None for process in running):
                    _listen(selector, Deadline.after(0.0), hear)
                    if not _listen(selector, until.within(TICK), hear):
                        break  # something that the launcher left behind holds its output open
            if late:
                _end(running, selector, hear)
        finally:
            codes = [process.poll() if process is not None else None for process in running]
            for process in running:
                if process is not None:
                    let_go(process)
        said = [_tail(path) for path in errors]
    return tuple(
        Outcome(
            command,
            None if number in late else codes[number],
            number in late and deadline.passed,
            said[number],
            problems.get(number),
        )
        for number, command in enumerate(commands)
    )


def _start(
    command: Command, environment: Mapping[str, str], errors: Path, folder: Path | None
) -> tuple[subprocess.Popen[bytes] | None, str]:
    try:
        with errors.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - a list, no shell
                list(command.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        return None, getattr(error, "strerror", None) or str(error)
    return process, ""


def _listen(selector: selectors.DefaultSelector, deadline: Deadline, hear: Callable[[int, bytes], None]) -> bool:
    """Whether anything was to be read."""
    found = False
    for key, _ in selector.select(deadline.remaining()):
        data = ready_bytes(key.fd)
        if data is None:
            continue
        if not data:
            selector.unregister(key.fd)
        hear(key.data, data)
        found = True
    return found


def _end(
    running: Sequence[subprocess.Popen[bytes] | None],
    selector: selectors.DefaultSelector,
    hear: Callable[[int, bytes], None],
) -> None:
    for process in running:
        if process is not None and process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)
    until = Deadline.after(TERM_SECONDS)
    while not until.passed and any(process is not None and process.poll() is None for process in running):
        _listen(selector, until.within(TICK), hear)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - MOST_ERRORS, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
