"""Sizes as people write them: bytes, or with KiB, MiB or GiB (nccl-tests' K, M and G mean the same)."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d{1,20})\s*(|B|[KMG](?:i?B)?)", re.IGNORECASE)
_FACTORS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(text: str) -> int | None:
    """Bytes; None for anything else. All units are powers of 1024, as they are in nccl-tests."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _FACTORS[found[2][:1].lower()] if found else None


def size_text(size: int) -> str:
    """The shortest exact way: 16 KiB, 256512 B."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"
