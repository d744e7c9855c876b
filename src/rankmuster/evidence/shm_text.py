"""`df /dev/shm` -> `CapturedSpace`: how much shared memory NCCL's ranks of one host may have between them."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import CapturedSpace
from rankmuster.model.plane import Plane
from rankmuster.model.unknown import Unknown

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
"""df -h counts in powers of 1024 (GNU coreutils)."""

_HEADER = re.compile(r"^Filesystem\s+(Size|1K-blocks|1M-blocks|1G-blocks|1B-blocks|1024-blocks|512-blocks)\s")
_BLOCKS = {"1K": 1 << 10, "1M": 1 << 20, "1G": 1 << 30, "1B": 1, "1024": 1 << 10, "512": 512}
_ROW = re.compile(r"^\S{1,200}\s+(\d{1,20}(?:\.\d{1,3})?)([KMGTP]?)\s+\S+\s+\S+\s+\S+\s+/dev/shm\s*$")
_SIGN = re.compile(
    r"^Filesystem\s+(?:Size|\d{1,4}[KMGB]?-blocks)\s.{0,200}\r?\n(?:.{0,400}\r?\n){0,60}?.{0,400}\s/dev/shm\s*$", re.M
)


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    unit: int | None = None
    found: list[CapturedSpace] = []
    known = 0
    for _, line in lines(blob.data):
        header, row = _HEADER.match(line), _ROW.match(line)
        if header:
            unit = _BLOCKS.get(header.group(1).removesuffix("-blocks"))
        elif row and not found:
            number, letter = row.groups()
            factor = UNITS[letter] if letter or unit is None else unit
            size = int(float(number) * factor)
            found.append(
                CapturedSpace(blob.path, host, size if size < 1 << 62 else Unknown(f"{blob.path} says {number[:30]}"))
            )
        else:
            host = host_of_prompt(line) or host
            continue
        known += 1
    return Reading(tuple(found), (), known)


PART = Reader("shm-text", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
