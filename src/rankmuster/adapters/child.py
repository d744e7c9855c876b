"""One child process with an end: its output bounded, its time bounded, whatever it does.

It is the leader of a session of its own, so that a Ctrl-C meant for its caller does not reach it, and so that what it
started can be ended with it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rankmuster.collect.deadline import Clock
from rankmuster.collect.find.seen import MARKERS

KEEP_BYTES = 64 << 10
"""Of the output, so many from its beginning and as many from its end: a collection says 3 KiB."""

CHUNK = 64 << 10
"""Read at once: a pipe holds as much (pipe(7))."""

WAIT_SECONDS = 0.2
"""Between two looks whether it has ended or shall: a fifth of a second more or less is nothing in a stop."""

KILL_SECONDS = 2.0
"""For the kernel to end what was killed; what sleeps in a driver is left behind after that."""

NICENESS = 5
"""As `rankmuster collect` steps back: where processors are scarce the instance goes first."""


@dataclass(frozen=True, slots=True)
class Ran:
    """`status`: as `Popen.returncode`; None where it never began (`problem` says why) or could not even be killed.

    `output`: both streams, `dropped` bytes of the middle left out. `late`: it was ended from here. `hurried`: and not
    for its deadline, but since its caller ends.
    """

    status: int | None
    seconds: float
    output: bytes = b""
    dropped: int = 0
    late: bool = False
    hurried: bool = False
    problem: str = ""


class _Output:
    """The beginning and the end of what was said."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = KEEP_BYTES - len(self._head)
        self._head += data[:room] if room > 0 else b""
        rest = data[max(room, 0) :]
        if rest:
            self._tail.append(rest)
            self._held += len(rest)
        while self._held > KEEP_BYTES:
            over = self._held - KEEP_BYTES
            first = self._tail.popleft()
            if len(first) > over:
                self._tail.appendleft(first[over:])
            gone = min(over, len(first))
            self._held -= gone
            self.dropped += gone

    def all(self) -> bytes:
        gap = f"\n[{self.dropped} bytes left out]\n".encode() if self.dropped else b""
        return bytes(self._head) + gap + b"".join(self._tail)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This program's own, without what would make the child a part of the instance; `PYTHONPATH` without surprises.

    Our children run in `/`, where a relative entry would mean another folder.
    """
    found = {key: value for key, value in os.environ.items() if key not in MARKERS}
    path = found.get("PYTHONPATH")
    if path:
        found["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in path.split(os.pathsep) if part)
    return {**found, **(extra or {})}


def run_child(
    command: Sequence[str],
    *,
    seconds: float,
    grace: float,
    clock: Clock,
    hurry: Callable[[], bool] = lambda: False,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    step_back: bool = True,
    whole_group: bool = False,
    pass_fds: Sequence[int] = (),
) -> Ran:
    """Runs it to its end, or ends it: SIGTERM after `seconds` or once `hurry` says so, SIGKILL `grace` seconds later.

    `whole_group`: whether SIGTERM goes to what it has started as well. `step_back`: run it with a lower priority. Never
    raises for expected trouble, and returns by `seconds + grace + KILL_SECONDS`.
    """
    begun = clock()
    try:
        # A file in memory: whether and when the child reads it does not matter.
        given = os.memfd_create("stop", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(given), "wb") as file:
                file.write(stdin)
            os.lseek(given, 0, os.SEEK_SET)
            process = subprocess.Popen(  # noqa: S603  # no shell; ours, or what the operator configured
                list(command),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(environ) if environ is not None else environment(),
                cwd=cwd,
                pass_fds=pass_fds,
            )
        finally:
            os.close(given)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        return Ran(None, clock() - begun, problem=f"it could not be started ({what})")
    if step_back:
        with contextlib.suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, process.pid, min(own + NICENESS, 19))
    kept = _Output()
    late = hurried = False
    stdout = process.stdout
    assert stdout is not None
    os.set_blocking(stdout.fileno(), False)
    end = begun + seconds
    with stdout, selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while process.poll() is None:
            now = clock()
            if not late and (now >= end or hurry()):
                late, hurried = True, now < end
                _signal(process, signal.SIGTERM, whole_group)
                end = now + grace
            elif now >= end:
                _signal(process, signal.SIGKILL, True)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(KILL_SECONDS)
                break
            if selector.get_map():
                for _ in selector.select(min(WAIT_SECONDS, max(end - now, 0.01))):
                    if _read(stdout.fileno(), kept):
                        selector.unregister(stdout)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(WAIT_SECONDS, max(end - now, 0.01)))
        if late:
            _signal(process, signal.SIGKILL, True)  # what it started and left behind
        # What a child that lives on has inherited the pipe for is not waited for.
        for _ in range(4):
            if _read(stdout.fileno(), kept):
                break
    return Ran(process.returncode, clock() - begun, kept.all(), kept.dropped, late, hurried)


def _read(descriptor: int, kept: _Output) -> bool:
    """Takes what is there; whether no more will come."""
    try:
        data = os.read(descriptor, CHUNK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    kept.add(data)
    return not data


def _signal(process: subprocess.Popen[bytes], number: int, group: bool) -> None:
    with contextlib.suppress(OSError):
        if group:
            os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)
