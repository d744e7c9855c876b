"""torch::jit::Pickler's way of writing plain data: protocol 2, texts and shared dicts once, numbers as short as fit.

Rules, as read off real dumps: every text is memoised where it first appears and fetched afterwards; frame dicts too,
but one that a single stack passes through once; other dicts, lists and tuples never, but for the whole. Lists and dicts
have their mark and end even when empty.
"""

from __future__ import annotations

import struct
from functools import lru_cache

PROTO = b"\x80\x02"
EMPTY_DICT = b"}("
END_DICT = b"u"
EMPTY_LIST = b"]("
END_LIST = b"e"
TUPLE2 = b"\x86"
NONE = b"N"
TRUE = b"\x88"
FALSE = b"\x89"
STOP = b"."
LONG = b"\x8a\x08"


@lru_cache(maxsize=1 << 17)
def integer(value: int) -> bytes:
    """BININT1, BININT2, BININT or LONG1 of eight bytes, whichever is the first to fit."""
    if 0 <= value <= 0xFF:
        return b"K" + bytes((value,))
    if 0 <= value <= 0xFFFF:
        return b"M" + struct.pack("<H", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return LONG + struct.pack("<q", value)


def floating(value: float) -> bytes:
    return b"G" + struct.pack(">d", value)


class Memo:
    """Indexes of what has been written. `size` grows with everything that is new."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: dict[str, bytes] = {}
        self._shared: dict[object, bytes] = {}

    def text(self, value: str) -> bytes:
        """The text itself the first time, afterwards the fetch of it."""
        known = self._texts.get(value)
        if known is not None:
            return known
        raw = value.encode()
        put, self._texts[value] = self._next()
        return b"X" + struct.pack("<I", len(raw)) + raw + put

    def knows(self, value: str) -> bool:
        return value in self._texts

    def shared(self, key: object) -> bytes | None:
        """The fetch of something memoised under `key`, None where it has to be written (then call `share`)."""
        return self._shared.get(key)

    def share(self, key: object) -> bytes:
        """Memoises what was just written; what to write behind it."""
        put, self._shared[key] = self._next()
        return put

    def _next(self) -> tuple[bytes, bytes]:
        index = self.size
        self.size += 1
        if index <= 0xFF:
            return b"q" + bytes((index,)), b"h" + bytes((index,))
        raw = struct.pack("<I", index)
        return b"r" + raw, b"j" + raw
