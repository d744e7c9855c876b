"""gzip and zstd as bounded streams: a small file that unpacks to terabytes is cut, not believed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

MAX_TOTAL_BYTES = 1024 * 1024 * 1024
"""Unpacked bytes of all archives of one load: 256 ranks with a dump of 2000 entries (0.5 MiB) and a 3 MiB log each."""
MAX_MEMBERS = 100_000
"""Archive members of one load: a few files for each of ten thousand ranks."""

GZIP = b"\x1f\x8b\x08"
ZSTD = b"\x28\xb5\x2f\xfd"

_PIECE = 1024 * 1024
_GZIP_INPUT = 64 * 1024
_ZSTD_INPUT = 1024
"""zstd's interface cannot bound its output; a block needs 4 bytes and makes 128 KiB, so 1 KiB makes 32 MiB at most."""
_ZSTD_WINDOW = 128 * 1024 * 1024
"""Memory that a frame may ask for (zstd --long=27); larger ones are refused by the library."""


class Packing(Enum):
    GZIP = "gzip"
    ZSTD = "zstd"


def packing_of(data: bytes) -> Packing | None:
    """By magic number."""
    if data.startswith(GZIP):
        return Packing.GZIP
    return Packing.ZSTD if data.startswith(ZSTD) else None


@dataclass(slots=True)
class Allowance:
    """What one load may still unpack; shared by all of its archives."""

    bytes_left: int = MAX_TOTAL_BYTES
    members_left: int = MAX_MEMBERS


class _Cut(Exception):
    """The packed data ends early or is damaged; what came out before is sound."""


class PackedStream:
    """Reads unpacked bytes. `damage`: set when the end came too early; `refused`: when the allowance ended it."""

    def __init__(self, data: bytes, packing: Packing | None, allowance: Allowance) -> None:
        self._allowance = allowance if packing is not None else None
        self._pieces = _pieces(data, packing)
        self._buffer = bytearray()
        self.damage: str | None = None
        self.refused: str | None = None

    def read(self, count: int) -> bytes:
        """`count` bytes, fewer only at the end of what can be had."""
        self._fill(count)
        with memoryview(self._buffer) as view:  # a slice of the buffer itself would be one more copy
            taken = bytes(view[:count])
        del self._buffer[:count]
        return taken

    def peek(self, count: int) -> bytes:
        """As `read`, without taking them."""
        self._fill(count)
        return bytes(self._buffer[:count])

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count and self.damage is None and self.refused is None:
            try:
                piece = next(self._pieces, None)
            except _Cut as cut:
                self.damage = str(cut)
                return
            if piece is None:
                return
            if self._allowance is not None:
                if len(piece) > self._allowance.bytes_left:
                    piece = piece[: self._allowance.bytes_left]
                    self.refused = f"more than {MAX_TOTAL_BYTES >> 20} MiB would be unpacked in all"
                self._allowance.bytes_left -= len(piece)
            self._buffer += piece


def _pieces(data: bytes, packing: Packing | None) -> Iterator[bytes]:
    if packing is Packing.GZIP:
        return _gzip(data)
    if packing is Packing.ZSTD:
        return _zstd(data)
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _gzip(data: bytes) -> Iterator[bytes]:
    """Every member in turn; zeros behind the last one are padding."""
    unpacker = zlib.decompressobj(wbits=31)
    at, pending = 0, b""
    while True:
        if not pending:
            pending, at = data[at : at + _GZIP_INPUT], min(at + _GZIP_INPUT, len(data))
        exhausted = not pending
        try:
            piece = unpacker.decompress(pending, _PIECE)
        except zlib.error as error:
            raise _Cut(f"damaged ({error})") from error
        if piece:
            yield piece
        if not unpacker.eof:
            if exhausted and not piece:  # nothing more goes in, and nothing that was held back comes out
                raise _Cut("it ends before its end mark")
            pending = unpacker.unconsumed_tail
            continue
        at = _next_frame(data, at - len(unpacker.unused_data), GZIP)
        if at < 0:
            return
        unpacker, pending = zlib.decompressobj(wbits=31), b""


def _zstd(data: bytes) -> Iterator[bytes]:
    """Every frame in turn."""
    import zstandard  # not needed for most bundles, and 10 ms to import

    at = 0
    while at >= 0:
        unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        while not unpacker.eof:
            pending, at = data[at : at + _ZSTD_INPUT], min(at + _ZSTD_INPUT, len(data))
            if not pending:
                raise _Cut("it ends before its end mark")
            try:
                piece = unpacker.decompress(pending)
            except zstandard.ZstdError as error:
                raise _Cut(f"damaged ({error})") from error
            for start in range(0, len(piece), _PIECE):
                yield piece[start : start + _PIECE]
        at = _next_frame(data, at - len(unpacker.unused_data), ZSTD)


def _next_frame(data: bytes, at: int, magic: bytes) -> int:
    """Where the next frame begins, -1 at the end; anything but padding and frames is damage."""
    if data.startswith(magic, at):
        return at
    if data[at:].strip(b"\0"):
        raise _Cut("bytes that are not packed follow its end")
    return -1
