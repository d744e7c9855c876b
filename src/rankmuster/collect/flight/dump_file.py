"""One dump file: its bytes, when it was written, and whether it is whole, still being written, or no dump at all."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.files_below import located, opened_as, read_up_to
from rankmuster.evidence import flight_json, flight_pickle
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import FlightDump

MAX_DUMP_BYTES = 256 << 20
"""A dump of 2,000 entries has 0.2 to 0.9 MB; this holds a buffer of half a million."""

MAX_CHECKED_BYTES = 16 << 20
"""Larger ones are not walked (10 s for 100 MB): their last byte has to do."""

_STOP = b"."
_HEAD_BYTES = 256  # of JSON, before a key is named that only a dump has


class Shape(Enum):
    """WHOLE: it ends as its format wants. CUT: a dump that ends early. EMPTY: no byte yet. FOREIGN: something else."""

    WHOLE = "whole"
    CUT = "cut"
    EMPTY = "empty"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class DumpFile:
    """`written`: the file's mtime, unix seconds. `newest`: the newest stamp of its entries, unix seconds, None where
    there is none or it was not looked at. `content_rank`: the rank that the content alone tells, None mostly.
    `moving`: it changed while it was read. `why`: what is wrong with a CUT or FOREIGN one.
    """

    data: bytes
    written: float
    identity: tuple[int, int]  # device, inode
    version: tuple[int, int]  # mtime in ns, size
    uid: int
    moving: bool
    shape: Shape
    newest: float | None = None
    entries: int | None = None
    content_rank: int | None = None
    why: str = ""

    @property
    def settled(self) -> bool:
        """Whether it may be taken as it is."""
        return self.shape is Shape.WHOLE and not self.moving

    def older_than(self, started: float) -> bool:
        """Whether it is of an earlier run than one that began at `started`: by its entries' own stamps, which no copy
        renews, else by its mtime."""
        return (self.newest if self.newest else self.written) < started


def read_dump(root: Path, path: str, *, check: bool = True) -> DumpFile:
    """The file as it is now. `check`: walk its content (tens of milliseconds a megabyte), else only its ends.

    Raises OSError: ENOENT, EACCES, ELOOP for a symbolic link, EINVAL for a pipe, device or folder, EFBIG.
    """
    with located(root, path) as handle:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if before.st_size > MAX_DUMP_BYTES:
            raise OSError(errno.EFBIG, f"{before.st_size >> 20} MiB, more than a dump has")
        opened = opened_as(handle, os.O_RDONLY | os.O_NONBLOCK)
        try:
            data = read_up_to(opened, MAX_DUMP_BYTES)
            after = os.fstat(opened)
        finally:
            os.close(opened)
    moving = (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, len(data))
    shape, dump, why = _shape(path, data, check=check and len(data) <= MAX_CHECKED_BYTES)
    columns = dump.columns if dump is not None else None
    return DumpFile(
        data=data,
        written=after.st_mtime_ns / 1e9,
        identity=(after.st_dev, after.st_ino),
        version=(after.st_mtime_ns, after.st_size),
        uid=after.st_uid,
        moving=moving,
        shape=shape,
        newest=columns.newest_ns / 1e9 if columns is not None and columns.newest_ns > 0 else None,
        entries=len(columns) if columns is not None else None,
        content_rank=_content_rank(dump) if dump is not None else None,
        why=why,
    )


def version_of(root: Path, path: str) -> tuple[int, int] | None:
    """(mtime in ns, size) without reading it; None when there is none. Raises OSError for anything but ENOENT."""
    try:
        with located(root, path) as handle:
            found = os.fstat(handle)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _content_rank(dump: FlightDump) -> int | None:
    """The only rank that is a member of all its groups. (Sends name ranks too, but as their group numbers them.)"""
    members = [set(group.members) for group in dump.columns.groups if group.members]
    shared = set.intersection(*members) if members else set()
    return shared.pop() if len(shared) == 1 else None


def looks_like_dump(path: str, data: bytes) -> bool:
    """Whether these bytes are a whole dump, or the part of one."""
    shape, dump, _ = _shape(path, data, check=len(data) <= MAX_CHECKED_BYTES)
    return shape is Shape.WHOLE or dump is not None


def _shape(path: str, data: bytes, *, check: bool) -> tuple[Shape, FlightDump | None, str]:
    if not data:
        return Shape.EMPTY, None, "it is empty"
    blob = Blob(path.rsplit("/", 1)[-1], data)
    pickled = flight_pickle.recognises(blob)
    if not pickled and not flight_json.recognises(blob):
        if len(data) < _HEAD_BYTES and (data[:1] == b"\x80" or (data[:1] == b"{" and not data.endswith(b"}"))):
            return Shape.CUT, None, f"only {len(data)} bytes of it are there"
        return Shape.FOREIGN, None, f"it begins with {data[:8].hex(' ')}, which no dump does"
    if not check:
        ends = data.endswith(_STOP) if pickled else data.rstrip().endswith(b"}")
        if ends or len(data) > MAX_CHECKED_BYTES:
            return (Shape.WHOLE, None, "") if ends else (Shape.CUT, None, "its end is not there")
    reading = (flight_pickle if pickled else flight_json).read(blob)
    dump = next((item for item in reading.observations if isinstance(item, FlightDump)), None)
    said = reading.problems[0].message if reading.problems else ""
    if dump is None:
        # Cut before its first group it cannot be told from another pickle; what names classes is never a dump.
        early = pickled and not data.endswith(_STOP) and "refused" not in said and "not a Flight" not in said
        return (Shape.CUT if early else Shape.FOREIGN), None, said
    return (Shape.CUT, dump, said) if dump.cut else (Shape.WHOLE, dump, "")
