"""The outside of a flight summary: a magic, lengths, a digest, and two zstd frames (header and columns).

```
89 52 4d 46 53 0d 0a 1a 0a    magic; a copy that changes line ends changes it
16 bytes                      blake2b of everything that follows
u32 u32 u64 u64               packed and unpacked size of the header (JSON), of the body (columns); little endian
header, body                  one zstd frame each, with its own checksum and its unpacked size
zeros                         so many that the file earns what it unpacks to
```

What a file unpacks to is bounded by its size (`allowance`): one of a few bytes cannot make millions of entries. Columns
that are perfectly regular compress below that, so a writer adds zeros.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rankmuster.evidence.flight_summary_numbers import SummaryDamaged

MAGIC = b"\x89RMFS\r\n\x1a\n"
KNOWN_BY = MAGIC[:5]
"""What line ends cannot change: enough to tell what a spoilt copy was."""

FREE_HEADER_BYTES = 4 * 1024 * 1024
"""Unpacked header that any file may have: some 700 bytes a dump, and the names of groups and operations once."""

HEADER_BYTES_PER_BYTE = 64
"""More of it per byte of the file."""

FREE_VALUES = 250_000
"""Entries and table items that any file may hold: 8 ranks of 30,000 entries. A table of them takes 19 MB."""

VALUES_PER_BYTE = 16
"""More of them per byte of the file. Real dumps need some 8 bytes an entry; only synthetic ones less than 1/16."""

_BYTES_PER_VALUE = 64
"""Unpacked bytes of an entry, at most: seven columns of 8 bytes and four narrow ones."""

_SIZES = struct.Struct("<IIQQ")
_DIGEST = 16
_START = len(MAGIC) + _DIGEST + _SIZES.size
_LEVEL = 3
"""zstd's default: higher levels save 5 % and take several times as long."""
_WINDOW = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Framed:
    """`header`: the JSON's bytes, None where they are lost. `body`: None where it is lost; `damage` says why."""

    digest: str
    header: bytes | None
    body: bytes | None
    damage: str | None


def allowance(size: int) -> int:
    """Entries and table items that a file of `size` bytes may hold."""
    return FREE_VALUES + VALUES_PER_BYTE * size


def _header_allowance(size: int) -> int:
    return FREE_HEADER_BYTES + HEADER_BYTES_PER_BYTE * size


def join(header: bytes, body: bytes, values: int) -> bytes:
    """A file of both; `values` entries and table items are in it."""
    import zstandard

    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
    packed_header, packed_body = packer.compress(header), packer.compress(body)
    sizes = _SIZES.pack(len(packed_header), len(header), len(packed_body), len(body))
    rest = sizes + packed_header + packed_body
    size = len(MAGIC) + _DIGEST + len(rest)
    lacking = -(-(values - allowance(size)) // VALUES_PER_BYTE)
    lacking = max(lacking, -(-(len(header) - _header_allowance(size)) // HEADER_BYTES_PER_BYTE))
    rest += bytes(max(lacking, 0))
    return MAGIC + _digest(rest) + rest


def split(data: bytes) -> Framed:
    """Header and body of a file that begins with `KNOWN_BY`; of a damaged one the header where that is still sound."""
    if not data.startswith(MAGIC):
        mangled = "its first bytes are changed as by a copy that changes line ends (ssh -t, FTP in text mode)"
        return Framed("", None, None, mangled if len(data) > len(MAGIC) else f"it ends after {len(data)} bytes")
    if len(data) < _START:
        return Framed("", None, None, f"it ends after {len(data)} bytes")
    rest = memoryview(data)[len(MAGIC) + _DIGEST :]
    digest = data[len(MAGIC) : len(MAGIC) + _DIGEST]
    sizes = _SIZES.unpack_from(rest)
    damage = None
    if sizes[0] + sizes[2] > len(rest) - _SIZES.size:
        damage = f"it ends early: {len(data)} bytes of at least {_START + sizes[0] + sizes[2]}"
    elif _digest(rest) != digest:
        damage = "its bytes are not those that were written"
    start, end = _SIZES.size, _SIZES.size + sizes[0]
    header = body = None
    try:
        header = _unpacked(rest[start:end], sizes[1], _header_allowance(len(data)))
        if damage is None:
            most = allowance(len(data)) * _BYTES_PER_VALUE
            body = _unpacked(rest[end : end + sizes[2]], sizes[3], most)
    except SummaryDamaged as error:
        damage = damage or str(error)
    return Framed(digest.hex(), header, body, damage)


def _unpacked(packed: memoryview, size: int, most: int) -> bytes:
    """A frame whose own word on its size agrees with `size`: it is what the library reserves before it looks."""
    import zstandard

    if size > most:
        raise SummaryDamaged(f"{size >> 20} MiB would be unpacked from {len(packed)} bytes, more than is believed")
    if not size:
        return b""
    try:
        frame = zstandard.get_frame_parameters(packed)
        if frame.content_size != size or frame.window_size > _WINDOW:
            raise SummaryDamaged("its frames are not of the sizes that it states")
        unpacked = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise SummaryDamaged(f"what is packed in it is damaged ({str(error)[:80]})") from error
    if len(unpacked) != size:
        raise SummaryDamaged("its frames are not of the sizes that it states")
    return unpacked


def _digest(rest: bytes | memoryview) -> bytes:
    import hashlib

    return hashlib.blake2b(rest, digest_size=_DIGEST).digest()
