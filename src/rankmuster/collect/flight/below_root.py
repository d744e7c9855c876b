"""Opens a process's files from outside, below its own root, without ever being led out of it.

A path below `/proc/PID/root` that crosses an absolute symbolic link would be resolved against *this* program's root.
So links are resolved here, the way the process itself would resolve them, and one as the last part is refused: a dump
is a plain file and a pipe is a pipe, and a link in a folder that anyone may write to is somebody's trap.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_LINKS = 40
"""Links followed on one path, as the kernel does (MAXSYMLINKS)."""

MAX_NAMES = 100_000
"""Names of a folder that are looked at; /tmp of a busy node has thousands."""


def absolute(cwd: Path | None, path: str) -> str:
    """The path as the process means it, which may have given it relative to its working folder."""
    return path if path.startswith("/") else f"{cwd or '/'}/{path}"


@contextmanager
def located(root: Path, path: str) -> Iterator[int]:
    """A handle (O_PATH) of the object itself: it can be told what it is, but nothing has been opened yet.

    Raises OSError: ELOOP when the last part is a symbolic link or too many are on the way.
    """
    handle = _locate(root, path)
    try:
        yield handle
    finally:
        os.close(handle)


def reopened(handle: int, flags: int) -> int:
    """A file descriptor for what `handle` stands for, whatever may have taken its name meanwhile. Raises OSError."""
    return os.open(f"/proc/self/fd/{handle}", flags | os.O_CLOEXEC)


def names_below(root: Path, folder: str) -> tuple[str, ...]:
    """The names in a folder, at most MAX_NAMES of them, sorted. Raises OSError."""
    with located(root, folder) as handle:
        opened = reopened(handle, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found: list[str] = []
            with os.scandir(opened) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= MAX_NAMES:
                        break
            return tuple(sorted(found))
        finally:
            os.close(opened)


def read_below(root: Path, path: str, most: int) -> bytes:
    """The first `most` bytes of a regular file. Raises OSError (EINVAL for what is no regular file)."""
    with located(root, path) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        opened = reopened(handle, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return read_up_to(opened, most)
        finally:
            os.close(opened)


def read_up_to(descriptor: int, most: int) -> bytes:
    """At most `most` bytes from where the descriptor stands. Raises OSError."""
    parts: list[bytes] = []
    left = most
    while left > 0:
        part = os.read(descriptor, min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _locate(root: Path, path: str) -> int:
    trail = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    pending = [part for part in reversed(path.split("/")) if part]
    links = 0
    try:
        while pending:
            part = pending.pop()
            if part == ".":
                continue
            if part == "..":
                if len(trail) > 1:  # above the root there is the root
                    os.close(trail.pop())
                continue
            handle = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trail[-1])
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                trail.append(handle)
                continue
            try:
                target = os.readlink("", dir_fd=handle)
            finally:
                os.close(handle)
            links += 1
            if not pending:
                raise OSError(errno.ELOOP, f"is a symbolic link (to {target[:200]})")
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, "too many symbolic links on the way")
            if target.startswith("/"):
                while len(trail) > 1:
                    os.close(trail.pop())
            pending.extend(part for part in reversed(target.split("/")) if part)
        return os.dup(trail[-1])
    finally:
        for handle in trail:
            os.close(handle)
