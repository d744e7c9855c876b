"""The end of a log, of whatever size, beginning at a line; with its start where that names the ranks."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass

LOST = bytes(16) + b"\n"
"""Stands where lines were left out: a block of NULs is what log rotation and full disks leave, and what the reader of
NCCL's logs takes for a hole, so that it concludes nothing from what a cut log lacks (its MIN_NUL_RUN is 16)."""

_PIECE = 1 << 20
MAX_INFLATED = 16
"""A packed log is read up to so many times the bytes wanted of it; the rest of a longer one is left."""


@dataclass(frozen=True, slots=True)
class Tail:
    """`size`: of the whole log when it was opened, without a hole at its start. `cut`: whether lines were left out."""

    data: bytes
    size: int
    cut: bool


def read(descriptor: int, limit: int, *, head: int = 0, begin: int = 0) -> Tail:
    """At most `limit` bytes of a regular file: its end, and `head` of them from its start. Raises OSError.

    `begin`: what stands before that byte is left, as if the file began there; a shorter file was begun anew.

    What is written meanwhile is left out, so that a log that grows as it is read has an end.
    """
    end = os.fstat(descriptor).st_size
    start = max(_first_data(descriptor, end), begin if begin <= end else 0)
    size = end - start
    if size <= limit:
        data = _take(descriptor, start, size)
        return Tail(data.lstrip(b"\0") if start == 0 else data, size, cut=False)
    limit = max(limit - len(LOST), 1)
    first = _until_last_line(_take(descriptor, start, min(head, limit // 2))) if head > 0 else b""
    rest = _from_first_line(_take(descriptor, end - (limit - len(first)), limit - len(first)))
    return Tail(first + LOST + rest.lstrip(b"\0"), size, cut=True)


def inflate(descriptor: int, limit: int, *, head: int = 0) -> Tail:
    """The same of a gzip file; a damaged one as far as it goes. Raises OSError."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    first, last, size, offset, packed = b"", b"", 0, 0, b""
    while size < limit * MAX_INFLATED:
        if not packed:
            packed = os.pread(descriptor, _PIECE // 8, offset)
            offset += len(packed)
            if not packed:
                break
        try:
            text = unpacker.decompress(packed, limit)
        except zlib.error:
            break
        packed = unpacker.unconsumed_tail  # what unpacks to more than `limit` comes in several goes
        size += len(text)
        if len(first) < head:
            first += text[: head - len(first)]
        last = (last + text)[-limit:]
        if unpacker.eof:  # what was packed in several goes has a member for each
            packed, unpacker = unpacker.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 16)
    if size <= limit:
        return Tail(last, size, cut=False)
    first = _until_last_line(first[: limit // 2])
    return Tail(first + LOST + _from_first_line(last[len(first) + len(LOST) :]), size, cut=True)


def _first_data(descriptor: int, end: int) -> int:
    """Where a file begins that was truncated under its writer; some file systems cannot tell."""
    try:
        return min(os.lseek(descriptor, 0, os.SEEK_DATA), end) if end > 0 else 0
    except OSError:
        return 0


def _take(descriptor: int, offset: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.pread(descriptor, min(size, _PIECE), offset)):
        pieces.append(piece)
        offset += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def _from_first_line(data: bytes) -> bytes:
    """From the first whole line on; where none begins, from the first step of a progress bar; else nothing.

    Half a line may be half a prompt, of a long context half a MiB: without its beginning nothing tells it for one.
    """
    at = data.find(b"\n")
    at = at if at >= 0 else data.find(b"\r")
    return data[at + 1 :] if at >= 0 else b""


def _until_last_line(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
