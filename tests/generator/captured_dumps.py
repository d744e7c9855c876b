"""Dumps of real processes out of the packed cases, and the rules of torch's pickler as they stand in the bytes."""

from __future__ import annotations

import pickletools
from functools import lru_cache
from pathlib import Path

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.unpack import unpack

CASES = Path(__file__).resolve().parents[1] / "cases"


@lru_cache(maxsize=8)
def real_dumps(case: str) -> dict[str, bytes]:
    """Path -> bytes of a case's pickled dumps."""
    packed = Blob(case, (CASES / case / "input.tar.zst").read_bytes())
    parts = [part for part in unpack(packed, Allowance()) if isinstance(part, Blob)]
    return {part.path: part.data for part in parts if "flight/" in part.path and part.data[:2] == b"\x80\x02"}


def broken_rules(data: bytes) -> list[str]:
    """Where `data` departs from torch's way: texts once and memoised at once, indexes in order."""
    found: list[str] = []
    texts: set[str] = set()
    next_index = 0
    ops = list(pickletools.genops(data))
    for (op, argument, place), (after, index, _) in zip(ops, [*ops[1:], (None, None, None)], strict=True):
        put = after is not None and after.name in ("BINPUT", "LONG_BINPUT")
        if op.name == "BINUNICODE":
            if argument in texts:
                found.append(f"the text {argument!r} is written again at {place}")
            texts.add(str(argument))
            if not put:
                found.append(f"the text {argument!r} at {place} is not memoised")
        if put:
            if index != next_index:
                found.append(f"memo index {index} at {place}, not {next_index}")
            if after.name != ("BINPUT" if index < 256 else "LONG_BINPUT"):
                found.append(f"{after.name} for the index {index}")
            if op.name not in ("BINUNICODE", "SETITEMS"):
                found.append(f"{op.name} at {place} is memoised")
            next_index += 1
        if op.name in ("BININT2", "BININT", "LONG1") and not _is_shortest(op.name, argument):
            found.append(f"{op.name} for {argument} at {place}")
    return found


def _is_shortest(op: str, value: object) -> bool:
    assert isinstance(value, int)
    if op == "BININT2":
        return value > 0xFF
    if op == "BININT":
        return value < 0 or value > 0xFFFF
    return value >= 2**31 or value < -(2**31)
