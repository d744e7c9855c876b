"""The sha256 of what evidence was read from: a file's bytes, a folder's files by their names."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from rankmuster.model.release import Proof

MOST_FILES = 100_000
"""Of a folder: a bundle of 4,096 ranks has some 20,000."""
PIECE = 1 << 20


class NotThere(Exception):
    """A file or folder cannot be read; the message says which, and why."""


def proof_of(paths: Sequence[Path], name: str | None = None) -> Proof:
    """Of one path, or of several in their order. `name`: else the first path. Raises NotThere."""
    hashes = [_of(path) for path in paths]
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Proof(name or f"{paths[0]}{more}", whole)


def _of(path: Path) -> str:
    try:
        if not path.is_dir():
            return _file(path)
        total = hashlib.sha256()
        for number, one in enumerate(_files(path)):
            if number >= MOST_FILES:
                raise NotThere(f"{path} holds more than {MOST_FILES} files, which no bundle does")
            total.update(f"{one.relative_to(path).as_posix()}\0{_file(one)}\n".encode("utf-8", "surrogateescape"))
        return total.hexdigest()
    except OSError as error:
        raise NotThere(f"{path} cannot be read ({error.strerror or error})") from error


def _files(path: Path) -> Iterator[Path]:
    """In an order that no file system chose. Links are not followed."""
    for folder, below, names in os.walk(path):
        below.sort()
        yield from (Path(folder) / name for name in sorted(names) if _plain(Path(folder) / name))


def _plain(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _file(path: Path) -> str:
    # not blocking: whoever opens a FIFO would wait for its writer for ever
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotThere(f"{path} is no regular file")
        found = hashlib.sha256()
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()
