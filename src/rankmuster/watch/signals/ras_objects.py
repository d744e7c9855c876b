"""A stream of JSON objects, one after the other, cut into whole ones as it comes. Pure."""

from __future__ import annotations

import json

MAX_HELD = 64 << 10
"""Bytes of one object that is not whole yet: an event has 250."""

_END = b"\n}"
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
        self._held += data
        found: list[bytes] = []
        while (end := self._end()) > 0:
            piece, self._held = self._held[:end], self._held[end:]
            begin = piece.find(b"{")
            if begin >= 0:
                found.append(piece[begin:])
        if len(self._held) > MAX_HELD:
            self.lost = (
                f"{len(self._held)} bytes without the end of an event, first {self._held[:40].decode('latin-1')!a}"
            )
            self._held = b""
        return found

    def _end(self) -> int:
        """Behind the first object that is whole; 0: there is none yet."""
        body = self._held.lstrip(b" \t\r\n\0")
        skipped = len(self._held) - len(body)
        if not body:
            self._held = b""
            return 0
        at = body.find(_END)
        if at >= 0:
            return skipped + at + len(_END)
        if not body.startswith(b"{") or b"}" not in body:
            return 0
        text = body.decode("utf-8", "surrogateescape")
        try:
            _, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return 0
        return skipped + len(text[:end].encode("utf-8", "surrogateescape"))
