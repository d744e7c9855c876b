"""Size and SHA-256, a piece at a time, since dumps and logs are large."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20


def digest(path: Path) -> tuple[int, str]:
    """(bytes, SHA-256 in hex) of a file. Raises OSError."""
    with path.open("rb") as file:
        return digest_of(file)


def digest_of(file: BinaryIO) -> tuple[int, str]:
    """The same of all that is left in an open one."""
    reckoned, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        reckoned.update(piece)
        size += len(piece)
    return size, reckoned.hexdigest()
