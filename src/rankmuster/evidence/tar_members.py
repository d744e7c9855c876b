"""The members of a tar archive, read from a stream front to back, never written anywhere.

Headers are decoded by `tarfile.TarInfo`; the walk is our own, because `tarfile.open` searches extended headers with a
regular expression that takes quadratic time on hostile ones (CVE-2024-6232), keeps every member in memory and takes
seconds for 10^5 of them. Format: POSIX ustar and pax, GNU long names.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

BLOCK = 512
MAX_HEADER_BYTES = 1024 * 1024
"""Of an extended header or a long name; real ones hold a path."""
_VOLUME_LABEL = b"V"
_CHUNK = 1024 * 1024
_MAX_EXTENSIONS = 1024
"""Continuation blocks of a sparse file's map that are skipped before it counts as damage."""


class MemberKind(str, Enum):
    FILE = "file"
    LINK = "link"
    DEVICE = "device"
    SPARSE = "sparse file"


@dataclass(frozen=True, slots=True)
class Member:
    """`data`: of a file, at most the limit asked for; `size`: as the header says."""

    name: str
    kind: MemberKind
    size: int
    data: bytes


class TarDamage(Exception):
    """The archive ends early or stops making sense; the members yielded before are sound."""


def looks_like_tar(head: bytes) -> bool:
    """Whether 512 bytes are a header with a right checksum and a name."""
    if len(head) < BLOCK or head[0] == 0:
        return False
    try:
        tarfile.TarInfo.frombuf(head[:BLOCK], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def members(read: Callable[[int], bytes], limit: int) -> Iterator[Member]:
    """Every file, link and device in order; folders and metadata are passed over.

    `read(n)` returns n bytes, fewer only at the end. Raises TarDamage after the last sound member.
    """
    long_name: str | None = None
    extended: dict[str, str] = {}
    while True:
        block = read(BLOCK)
        if not block:
            raise TarDamage("it ends without its end mark")
        if len(block) == BLOCK and not block.strip(b"\0"):
            return
        header = _header(block)
        size, kind = header.size, header.type
        if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE):
            records = _pax(_small(read, size))
            extended = records if kind != tarfile.XGLTYPE else extended
            continue
        if kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            text = _small(read, size).rstrip(b"\0").decode("utf-8", errors="replace")
            long_name = text if kind == tarfile.GNUTYPE_LONGNAME else long_name
            continue
        if kind == tarfile.GNUTYPE_SPARSE:
            _skip_sparse_map(read, block)
        name = extended.get("path") or long_name or header.name
        if extended.get("size", "").isdecimal() and len(extended["size"]) < 19:
            size = int(extended["size"])
        sparse = kind == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse.") for key in extended)
        long_name, extended = None, {}
        if kind in (tarfile.LNKTYPE, tarfile.SYMTYPE):
            yield Member(name, MemberKind.LINK, 0, b"")
        elif kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            yield Member(name, MemberKind.DEVICE, 0, b"")
        elif kind in (tarfile.DIRTYPE, _VOLUME_LABEL):
            _skip(read, _padded(size))
        elif sparse:
            _skip(read, _padded(size))
            yield Member(name, MemberKind.SPARSE, size, b"")
        else:
            yield from _file(read, name, size, limit)


def _file(read: Callable[[int], bytes], name: str, size: int, limit: int) -> Iterator[Member]:
    data = read(min(size, limit))
    yield Member(name, MemberKind.FILE, size, data)
    if len(data) < min(size, limit):
        raise TarDamage(f"it ends inside {name!r}")
    _skip(read, _padded(size) - len(data))


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise TarDamage(f"a member's header is damaged ({error})") from error
    if header.size < 0:
        raise TarDamage(f"{header.name!r} has a negative size")
    return header


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _small(read: Callable[[int], bytes], size: int) -> bytes:
    if size > MAX_HEADER_BYTES:
        raise TarDamage(f"an extended header of {size} bytes")
    return read(_padded(size))[:size]


def _skip(read: Callable[[int], bytes], count: int) -> None:
    while count > 0:
        passed = len(read(min(count, _CHUNK)))
        if passed == 0:
            raise TarDamage("it ends inside a member")
        count -= passed


def _skip_sparse_map(read: Callable[[int], bytes], block: bytes) -> None:
    extended = block[482] != 0
    for _ in range(_MAX_EXTENSIONS):
        if not extended:
            return
        more = read(BLOCK)
        extended = len(more) == BLOCK and more[504] != 0
    raise TarDamage("the map of a sparse file does not end")


def _pax(data: bytes) -> dict[str, str]:
    """Records `<length> <key>=<value>\\n`; what follows a damaged one is left."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data):
        digits, space, _ = data[at : at + 20].partition(b" ")
        if not space or not digits.isdigit() or int(digits) <= len(digits) + 1:
            break
        record = data[at + len(digits) + 1 : at + int(digits)]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        records[key.decode("utf-8", errors="replace")] = value.decode("utf-8", errors="replace")
        at += int(digits)
    return records
