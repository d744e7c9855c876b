"""A log that is to be taken: how to open it without following anybody anywhere, and what to call it in the bundle."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.evidence import names


@dataclass(frozen=True, slots=True)
class Source:
    """One way to a log. Either a path below a root, or (`descriptor`) what a process has open under a number.

    `uid`: whose file it must be, None: anybody's (the path is not the process's word). `said`: for people.
    `named`: its name in the bundle, without folder and rank. `rank`: whose it is, None: nobody's or several ranks'.
    `begin`: byte of the file before which it is others'.
    """

    root: Path
    path: str
    named: str
    rank: int | None = None
    uid: int | None = None
    descriptor: bool = False
    packed: bool = False
    begin: int = 0

    @property
    def said(self) -> str:
        """How a person would name it."""
        return f"{self.root / self.path}" if self.descriptor else self.path


@contextmanager
def opened(source: Source) -> Iterator[int]:
    """A descriptor for reading it. Raises OSError; files_below.Refused for what is no log of that process."""
    if not source.descriptor:
        with files_below.open_regular(source.root, source.path) as reading:
            _belongs(reading, source)
            yield reading
        return
    # The kernel's own link to an open file, good for deleted ones too. O_PATH: nothing at its other end notices.
    found = os.open(source.root / source.path, os.O_PATH | os.O_CLOEXEC)
    try:
        reading = files_below.reopen(found, source.said)
        try:
            yield reading
        finally:
            os.close(reading)
    finally:
        os.close(found)


def _belongs(descriptor: int, source: Source) -> None:
    """A process's settings may name any file, and this program may be root: only what it could have written counts."""
    owner = os.fstat(descriptor).st_uid
    if source.uid not in (None, 0, owner):
        message = f"belongs to uid {owner} and not to the process's {source.uid}; a log of its own would be its own"
        raise files_below.Refused(1, message, source.path)


def identity(source: Source) -> tuple[int, int] | None:
    """(device, inode), by which two ways to one log are seen to be one; None for what is no regular file."""
    with opened(source) as descriptor:
        status = os.fstat(descriptor)
        return (status.st_dev, status.st_ino)


def open_kind(root: Path, path: str) -> tuple[int, str] | None:
    """What a process has open under a number: its file mode, and where the link points; None when there is none."""
    try:
        mode = os.stat(root / path).st_mode
        link = os.readlink(root / path)
        writable = bool(os.lstat(root / path).st_mode & stat.S_IWUSR)
    except OSError:
        return None
    return (mode, link) if writable else None


def bundle_path(folder: str, rank: int | None, name: str) -> str:
    """`logs/rank3-stderr.log`: a name that tells readers this rank or none, whatever numbers the log's own name has."""
    base = name.rsplit("/", 1)[-1][-100:] or "log"
    for attempt in (base, re.sub(r"(?i)rank", "r", base), re.sub(r"(?i)rank", "r", base) + ".log", "output.log"):
        prefix = f"rank{rank}-" if rank is not None else ""
        path = f"{folder}/{prefix}{attempt}"
        if names.rank_of(path) == rank:
            return path
    return f"{folder}/{f'rank{rank}-' if rank is not None else ''}output.log"
