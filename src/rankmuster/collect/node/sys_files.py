"""Small files of /proc and /sys: read once, bounded, and an error is an answer."""

from __future__ import annotations

import errno
import os
from pathlib import Path

MAX_BYTES = 65_536


def read_bytes(path: Path | str, most: int = MAX_BYTES) -> bytes | None:
    """The file's beginning; None where it is not there, not readable, or its driver refuses (EINVAL, EOPNOTSUPP, EIO).

    Never blocks on a FIFO or a device, and reads regular files only.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        parts = b""
        while len(parts) < most:
            part = os.read(fd, most - len(parts))
            if not part:
                break
            parts += part
        return parts
    except OSError:
        return None
    finally:
        os.close(fd)


def read_text(path: Path | str, most: int = MAX_BYTES) -> str | None:
    """The same as text without white space around it."""
    data = read_bytes(path, most)
    return None if data is None else data.decode("utf-8", errors="replace").strip()


def read_number(path: Path | str) -> int | None:
    """A decimal number; None for anything else ("N/A (no PMA)", "max")."""
    said = read_text(path, 64)
    if said is None or not said.lstrip("-").isdecimal() or not said.isascii():
        return None
    return int(said)


def names(folder: Path | str, most: int = 4096) -> list[str]:
    """The names in a folder, sorted; empty where there is none."""
    try:
        with os.scandir(folder) as entries:
            found = []
            for entry in entries:
                found.append(entry.name)
                if len(found) >= most:
                    break
    except OSError:
        return []
    return sorted(found)


def denied(path: Path | str) -> bool:
    """Whether a file is there and may not be read."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    return False
