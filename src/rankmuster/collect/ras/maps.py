"""Which files a process has mapped, from /proc/PID/maps; only libraries that hold NCCL are of interest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.deadline import Deadline

MAX_BYTES = 64 << 20
"""Of one maps file; a process of a serving engine has some 1 to 5 MB of it."""

_PIECE = 1 << 20
_LINE = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) \S{4} [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+ \d+) +(/.*)")
_NAMES = ("libnccl.so", "libtorch_cuda.so")
_MARKS = tuple(name.encode() for name in _NAMES)
_DELETED = " (deleted)"


class Kind(str, Enum):
    """NCCL's own shared library, or torch's with NCCL linked into it."""

    NCCL = "nccl"
    TORCH = "torch"


@dataclass(frozen=True, slots=True)
class Mapped:
    """One mapped library. `path`: as the process sees it. `region`: the first part of it as /proc/PID/map_files names
    it, `7f0000-7f1000`. `file`: device and inode. `deleted`: the file of that name is another by now, or none."""

    kind: Kind
    path: str
    region: str
    file: str
    deleted: bool


def mapped_libraries(proc: Path, pid: int, deadline: Deadline) -> tuple[Mapped, ...]:
    """The libraries that may hold NCCL, each once, NCCL's own first. Raises OSError when maps cannot be read."""
    found: dict[tuple[str, bool], Mapped] = {}
    for match in _lines(proc / str(pid) / "maps", deadline):
        path = os.fsdecode(match.group(4))
        deleted = path.endswith(_DELETED)
        path = path.removesuffix(_DELETED)
        name = path.rsplit("/", 1)[1]
        if name.startswith(_NAMES):
            kind = Kind.NCCL if name.startswith(_NAMES[0]) else Kind.TORCH
            region = f"{int(match.group(1), 16):x}-{int(match.group(2), 16):x}"
            found.setdefault((path, deleted), Mapped(kind, path, region, match.group(3).decode(), deleted))
    return tuple(sorted(found.values(), key=lambda library: (library.kind is Kind.TORCH, library.path)))


def _lines(path: Path, deadline: Deadline) -> list[re.Match[bytes]]:
    """The lines that name one of the libraries."""
    lines: list[re.Match[bytes]] = []
    rest = b""
    taken = 0
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while taken < MAX_BYTES and not deadline.passed:
            piece = os.read(descriptor, _PIECE)
            if not piece:
                break
            taken += len(piece)
            whole, _, rest = (rest + piece).rpartition(b"\n")
            if any(mark in whole for mark in _MARKS):
                named = [line for line in whole.split(b"\n") if any(mark in line for mark in _MARKS)]
                lines += [match for line in named if (match := _LINE.fullmatch(line))]
    finally:
        os.close(descriptor)
    return lines
