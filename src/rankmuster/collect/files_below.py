"""Opens files below a root that belongs to somebody else, and nothing outside it.

A container's own file system is seen at `/proc/PID/root`, and whoever runs the container decides where its links point:
opened by name, `/etc/app.log -> /etc/shadow` would be the *collector's* shadow file. So paths are walked part by part
with every link resolved as the process itself would resolve it (openat2's RESOLVE_IN_ROOT, which Python cannot call).
A path that is meant to be the object itself may not end in a link: a dump is a plain file and a pipe is a pipe, and a
link in a folder that anyone may write to is somebody's trap. Only regular files are opened: opening a FIFO or a device
does something to whoever is at its other end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

MAX_LINKS = 40
"""Links followed on one path, as the kernel does (MAXSYMLINKS)."""
MAX_NAMES = 100_000
"""Names of a folder that are looked at: /tmp of a busy node and logs of months have thousands."""

MAX_DEPTH = 128
"""Folders between the root and a file: each is a descriptor of this program's while the path is walked."""

_PSEUDO = ("proc", "sys")
"""Top folders that hold no files of a process's own making; its environment stands there."""


class Refused(OSError):
    """It exists and is not opened: a FIFO, a device, a folder, or a place that holds no files of a process's own."""


def absolute(cwd: Path | None, path: str) -> str:
    """The path as the process means it, which may have given it relative to its working folder."""
    return path if path.startswith("/") else f"{cwd or '/'}/{path}"


@contextmanager
def located(root: Path, path: str) -> Iterator[int]:
    """A handle (O_PATH) of the object itself: it can be told what it is, but nothing has been opened yet.

    Raises OSError: ELOOP when the last part is a symbolic link or too many are on the way; Refused.
    """
    with _walked(root, path, follow_last=False) as (found, _):
        yield found


@contextmanager
def open_regular(root: Path, path: str, *, follow_last: bool = True) -> Iterator[int]:
    """A descriptor for reading the regular file that `path` (absolute, as the owner of `root` sees it) names.

    `follow_last`: the path may end in links, as those of logs do (`current.log -> 2026-11-29.log`).
    Raises OSError; Refused for what is no regular file, before anything of it is opened.
    """
    with _walked(root, path, follow_last=follow_last) as (found, _):
        reading = reopen(found, path)
        try:
            yield reading
        finally:
            os.close(reading)


def reopen(found: int, path: str) -> int:
    """A descriptor for reading what an O_PATH descriptor stands for, if it is a regular file. The caller closes it."""
    mode = os.fstat(found).st_mode
    if not stat.S_ISREG(mode):
        raise Refused(errno.EINVAL, f"is {kind(mode)} and was not opened", path)
    return opened_as(found, os.O_RDONLY | os.O_NONBLOCK)


def opened_as(found: int, flags: int) -> int:
    """A descriptor for what an O_PATH descriptor stands for, of whatever kind and whatever may have taken its name
    meanwhile: only for who has looked at what it is. Raises OSError."""
    return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC | os.O_NOCTTY)


def read_below(root: Path, path: str, most: int) -> bytes:
    """The first `most` bytes of a regular file whose path ends in no link. Raises OSError."""
    with open_regular(root, path, follow_last=False) as descriptor:
        return read_up_to(descriptor, most)


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


def names_in(root: Path, path: str) -> list[str]:
    """The names in a folder, at most MAX_NAMES of them, sorted; raises OSError."""
    with _walked(root, path) as (found, _):
        listing = opened_as(found, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(listing) as entries:
                return sorted(entry.name for entry in islice(entries, MAX_NAMES))
        finally:
            os.close(listing)


def resolved(root: Path, path: str) -> str:
    """The path below the root without any link in it; raises OSError where it leads nowhere."""
    with _walked(root, path) as (_, parts):
        return "/" + "/".join(parts)


def status(root: Path, path: str) -> os.stat_result:
    """What the file that the path names is, without opening it; raises OSError."""
    with _walked(root, path) as (found, _):
        return os.fstat(found)


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


@contextmanager
def _walked(root: Path, path: str, *, follow_last: bool = True) -> Iterator[tuple[int, tuple[str, ...]]]:
    """An O_PATH descriptor of what the path names below the root, and the parts by which it is reached in the end."""
    # The root itself may be the magic link /proc/PID/root: that one is followed.
    trail = [(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), "")]
    try:
        _walk(trail, path, follow_last=follow_last)
        yield trail[-1][0], tuple(name for _, name in trail[1:])
    finally:
        for descriptor, _ in trail:
            os.close(descriptor)


def _walk(trail: list[tuple[int, str]], path: str, *, follow_last: bool) -> None:
    waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if len(trail) > 1:  # above the root there is the root
                os.close(trail.pop()[0])
            continue
        if len(trail) > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"lies more than {MAX_DEPTH} folders deep", path)
        found = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trail[-1][0])
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            trail.append((found, part))
            continue
        try:
            target = os.readlink("", dir_fd=found)
        finally:
            os.close(found)
        links += 1
        if not waiting and not follow_last:
            raise OSError(errno.ELOOP, f"is a symbolic link (to {target[:200]})", path)
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "too many symbolic links on the way", path)
        if target.startswith("/"):
            while len(trail) > 1:
                os.close(trail.pop()[0])
        waiting.extend(step for step in reversed(target.split("/")) if step not in ("", "."))
    if len(trail) > 1 and trail[1][1] in _PSEUDO:
        raise Refused(errno.EPERM, "lies in a folder of the kernel's, which holds no files of a process's own", path)
