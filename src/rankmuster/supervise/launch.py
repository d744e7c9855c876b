"""Starts the command: in a session of its own, bound to the supervisor's life, with exactly the variables given."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence

from rankmuster.collect.own_path import FLAGS, own_path
from rankmuster.supervise.launch_shim import NOT_FOUND, NOT_RUN

BEGIN_SECONDS = 20.0
"""For an interpreter to start on a busy host, and the program to be found on a slow file system."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from rankmuster.supervise.launch_shim import main; main()"
)


class CannotLaunch(Exception):
    """The command was not begun. `status`: what a shell would exit with."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def launch(command: Sequence[str], environment: Mapping[str, str], log: str | None) -> subprocess.Popen[bytes]:
    """The running command. Its input is ours unless that is a terminal, its output ours or appended to `log`.

    To be called in the thread that lives as long as the process: the kernel binds the child to that. Raises
    CannotLaunch.
    """
    opened: list[int] = []
    try:
        output = None if log is None else _opened(opened, os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
        # a program in a session of its own cannot read from our terminal
        stdin = _opened(opened, os.open(os.devnull, os.O_RDONLY)) if _is_terminal(0) else None
        given = _opened(opened, os.memfd_create("command", 0))
        _write(given, json.dumps({"command": list(command), "environment": dict(environment)}).encode())
        reading, failed = os.pipe()
        opened += [reading, failed]
        process = subprocess.Popen(  # noqa: S603 - what the user asked for, through our own program
            [sys.executable, *FLAGS, "-c", _PROGRAM, str(os.getpid()), str(given), str(failed), json.dumps(own_path())],
            stdin=stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(given, failed),
        )
        os.close(failed)
        opened.remove(failed)
        number = _failure(reading)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        raise CannotLaunch(f"{command[0]!r} was not started: {what}", NOT_RUN) from error
    finally:
        for descriptor in opened:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    if number:
        with contextlib.suppress(ChildProcessError):
            process.wait()
        status = NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_RUN
        raise CannotLaunch(f"{command[0]!r} cannot be run: {os.strerror(number)}", status)
    return process


def _opened(kept: list[int], descriptor: int) -> int:
    kept.append(descriptor)
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.lseek(descriptor, 0, os.SEEK_SET)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _failure(reading: int) -> int:
    """The number of the error with which the program could not be begun; 0 where it was (its end closes the pipe)."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    if not poll.poll(BEGIN_SECONDS * 1000):
        return 0
    said = os.read(reading, 16)
    return int(said) if said.isdigit() else 0
