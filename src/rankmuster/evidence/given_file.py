"""A file that a user names, read within a size: a regular one, or what a shell has opened already.

A named pipe without a writer, a device or a socket would be waited for without end, and a folder has no bytes: each is
refused in words that say what it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Standard input, and what a shell puts in place of `<(command)`: pipes whose writer is there, and whose end comes."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a disk"),
)


class CannotRead(Exception):
    """The file has no bytes to read, or too many; the message says what it is and begins with `cannot read`."""


def bytes_in(path: Path, most: int, what: str = "file of this kind") -> bytes:
    """The file's bytes, `most` at most; `what` it should be, for the message of a larger one. Raises CannotRead."""
    try:
        given = str(path).startswith(OPEN_ALREADY)
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not given:
            raise CannotRead(f"cannot read {path}: it is {kind(mode)}, not a file")
        # not blocking: it may have become a named pipe since
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if given else os.O_NONBLOCK))
        with open(descriptor, "rb") as file:
            if not given and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CannotRead(f"cannot read {path}: it is not a file")
            data = file.read(most + 1)
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {_why(path, error)}") from error
    except ValueError as error:
        raise CannotRead(f"cannot read {str(path)[:60]!r}: {error}") from error
    if len(data) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
        raise CannotRead(f"cannot read {path}: it has more than {size}, and no {what} is that large")
    return data


def kind(mode: int) -> str:
    """What a path is, by its mode."""
    return next((words for test, words in _KINDS if test(mode)), "no file")


def _why(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return f"it is a link to {os.readlink(path)}, which is not there"
    return error.strerror or str(error)
