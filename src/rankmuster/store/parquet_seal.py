"""A seal on a parquet file: the sha256 of all its bytes, within it, checked before anybody parses the file.

Parquet's own checksums are of pages alone and were added to pyarrow by and by; a file with a few bytes changed can come
back as other numbers, or end the process within the library. The seal stands in the file's metadata as 64 hex digits,
and is over the file with zeros in their place. It tells damage and careless changes; it is no signature.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from rankmuster.store.errors import Refused

MARK = b"rankmuster-seal-sha256:"

_DIGITS = 64

UNSEALED = (MARK + b"0" * _DIGITS).decode()
"""What the metadata has until the file is whole."""

_MAGIC = b"PAR1"

_CHUNK = 1 << 20


def seal(path: Path) -> None:
    """Seals a file whose metadata has `UNSEALED` (or an older seal), in place."""
    with path.open("r+b") as file:
        place = _place(file, path)
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest.encode())


def check_seal(path: Path) -> None:
    """Raises Refused for a file that is no parquet, cut off, of something else, or not as it was sealed."""
    try:
        with path.open("rb") as file:
            place = _place(file, path)
            file.seek(place)
            said = file.read(_DIGITS)
            if said != _digest(file, place).encode():
                raise Refused(
                    f"cannot import {path}: it is damaged or was changed since it was exported; export it again"
                )
    except OSError as error:
        raise Refused(f"cannot import {path}: {error.strerror or error}") from error


def _place(file: BinaryIO, path: Path) -> int:
    """Where the digits are. The file ends with its footer, the footer's length and the magic (parquet-format)."""
    file.seek(0)
    begins = file.read(len(_MAGIC)) == _MAGIC
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if not begins or tail[4:] != _MAGIC or length + 8 > size:
        raise Refused(f"cannot import {path}: it is no parquet file, or is cut off or damaged")
    begin = size - 8 - length
    file.seek(begin)
    found = file.read(length).rfind(MARK)
    if found < 0:
        raise Refused(f"cannot import {path}: it is parquet, and no history that `rankmuster history export` wrote")
    return begin + found + len(MARK)


def _digest(file: BinaryIO, place: int) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    at = 0
    while chunk := file.read(_CHUNK):
        begin, end = max(place - at, 0), min(place + _DIGITS - at, len(chunk))
        if begin < end:
            chunk = chunk[:begin] + b"0" * (end - begin) + chunk[end:]
        digest.update(chunk)
        at += len(chunk)
    return digest.hexdigest()
