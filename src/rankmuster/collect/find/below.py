"""Opens files below a root that belongs to somebody else, and nothing outside it.

A container's own file system is seen at `/proc/PID/root`, and whoever runs the container decides where its links point:
opened by name, `/etc/app.log -> /etc/shadow` would be the *collector's* shadow file. So paths are walked part by part
with every link resolved as the process itself would resolve it (openat2's RESOLVE_IN_ROOT, which Python cannot call).
Nothing but regular files is opened: opening a FIFO or a device does something to whoever is at its other end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

MAX_LINKS = 40
"""Links followed on one path, as the kernel does (MAXSYMLINKS)."""
MAX_LISTED = 20_000
"""Names read of one folder: a log folder of months stays far below."""

_PSEUDO = ("proc", "sys")
"""Top folders that hold no files of a process's own making; its environment stands there."""


class Refused(OSError):
    """It exists and is not opened: a FIFO, a device, a folder, or a place that holds no logs."""


def _descend(root: Path, path: str, opened: ExitStack) -> tuple[int, tuple[str, ...]]:
    """An O_PATH descriptor of what the path names below the root, and the parts by which it is reached in the end."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

    def keep(descriptor: int) -> int:
        opened.callback(os.close, descriptor)
        return descriptor

    # The root itself may be the magic link /proc/PID/root: that one is followed.
    stack = [(keep(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)), "")]
    waiting = list(reversed([part for part in path.split("/") if part not in ("", ".")]))
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if len(stack) > 1:
                stack.pop()
            continue
        found = keep(os.open(part, flags, dir_fd=stack[-1][0]))
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            stack.append((found, part))
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        target = os.readlink(part, dir_fd=stack[-1][0])
        if target.startswith("/"):
            del stack[1:]
        waiting.extend(reversed([step for step in target.split("/") if step not in ("", ".")]))
    parts = tuple(name for _, name in stack[1:])
    if parts and parts[0] in _PSEUDO:
        raise Refused(errno.EPERM, "lies in a folder of the kernel's, which holds no logs", path)
    return stack[-1][0], parts


@contextmanager
def open_regular(root: Path, path: str) -> Iterator[int]:
    """A descriptor for reading the regular file that `path` (absolute, as the owner of `root` sees it) names.

    Raises OSError; Refused for what is no regular file, before anything of it is opened.
    """
    with ExitStack() as opened:
        found, _ = _descend(root, path, opened)
        reading = reopen(found, path)
        opened.callback(os.close, reading)
        yield reading


def reopen(found: int, path: str) -> int:
    """A descriptor for reading what an O_PATH descriptor stands for, if it is a regular file. The caller closes it."""
    mode = os.fstat(found).st_mode
    if not stat.S_ISREG(mode):
        raise Refused(errno.EINVAL, f"is {kind(mode)} and was not opened", path)
    return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def names(root: Path, path: str) -> list[str]:
    """The names in a folder, sorted; raises OSError."""
    with ExitStack() as opened:
        found, _ = _descend(root, path, opened)
        listing = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, listing)
        listed: list[str] = []
        with os.scandir(listing) as entries:
            for entry in entries:
                listed.append(entry.name)
                if len(listed) >= MAX_LISTED:
                    break
        return sorted(listed)


def resolved(root: Path, path: str) -> str:
    """The path below the root without any link in it; raises OSError where it leads nowhere."""
    with ExitStack() as opened:
        _, parts = _descend(root, path, opened)
        return "/" + "/".join(parts)


def kind(mode: int) -> str:
    """What a file is, in words."""
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a terminal or device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISDIR, "a folder"),
    )
    return next((words for test, words in kinds if test(mode)), "a special file")


def modified(root: Path, path: str) -> float:
    """When the file was last written, unix seconds; raises OSError."""
    with ExitStack() as opened:
        found, _ = _descend(root, path, opened)
        return os.fstat(found).st_mtime
