"""A stream of JSON objects, one after the other, cut into whole ones as it comes. Pure."""

from __future__ import annotations

import json
import re

MAX_HELD = 64 << 10
"""Bytes of one object that is not whole yet: an event has 250."""

MAX_PIECES = 1000
"""Objects of one feed: those of NCCL have 100 bytes and more, so that 64 KiB hold 650."""

_END = b"\n}"
_BLANK = re.compile(rb"[ \t\r\n\0]*")
_DECODER = json.JSONDecoder()


class Splitter:
    """`lost`: why the stream cannot be read any more, empty while it can."""

    def __init__(self) -> None:
        self.lost = ""
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that are whole by now, in order; what stands between two of them and is none is left out.

        NCCL writes an object over several lines, its last `}` alone at the start of one. Others are found as JSON.
        """
        if self.lost:
            return []
        held = self._held + data
        text = held.decode("latin-1")  # a character a byte: JSON's own signs are ASCII
        found: list[bytes] = []
        at = pieces = 0
        while True:
            blank = _BLANK.match(held, at)
            at = blank.end() if blank is not None else at
            end = _end(held, text, at)
            if end <= at or pieces > MAX_PIECES:
                break
            begin = held.find(b"{", at, end)
            if begin >= 0:
                found.append(held[begin:end])
            at, pieces = end, pieces + 1
        self._held = held[at:]
        if pieces > MAX_PIECES:
            self.lost = f"more than {MAX_PIECES} events at once"
        elif len(self._held) > MAX_HELD:
            first = self._held[:40].decode("latin-1")
            self.lost = f"{len(self._held)} bytes without the end of an event, first {first!a}"
        if self.lost:
            self._held = b""
        return found


def _end(held: bytes, text: str, at: int) -> int:
    """Behind the first object from `at` on that is whole; `at`: there is none yet."""
    close = held.find(_END, at)
    if close >= 0:
        return close + len(_END)
    if not held.startswith(b"{", at):
        return at
    try:
        _, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return at
    return end
