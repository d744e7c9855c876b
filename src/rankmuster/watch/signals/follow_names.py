"""Which file has a name now, and which had it meanwhile: what rotation does, as told from outside."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Set

from rankmuster.collect import files_below
from rankmuster.collect.logs.nccl_files import ROTATED
from rankmuster.collect.logs.sources import Source, opened
from rankmuster.watch.signals.follow_open import OpenFile, Place

ABSENT = (errno.ENOENT, errno.ESRCH, errno.ENOTDIR)
"""What the kernel says of a name that nothing has."""

Key = tuple[int, int]
"""(device, inode)."""


def leads_to(source: Source) -> Key | None:
    """What the name leads to as seen from here: enough to tell that nothing has changed. Raises OSError."""
    try:
        status = os.stat(source.root / source.path.lstrip("/"))
    except OSError as error:
        # An absolute link means another file within the process's own root.
        if source.descriptor or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            if error.errno in (errno.ENOENT, errno.ESRCH):
                return None
            raise
        try:
            status = files_below.status(source.root, source.path)
        except OSError as inner:
            if inner.errno in ABSENT:
                return None
            raise
    return (status.st_dev, status.st_ino)


def pieces_between(source: Source, before: OpenFile, known: Set[Key], read_to: Mapping[Key, Place]) -> list[OpenFile]:
    """Rotated pieces that were begun and ended between two looks, oldest first: written after `before`, the one that
    had the name at the former look. `known`: files that are open anyway. `read_to`: to where others were read."""
    if source.descriptor:
        return []
    folder, _, name = source.path.rpartition("/")
    found: list[tuple[int, OpenFile]] = []
    try:
        last = before.modified()
        listed = [one for one in files_below.names_in(source.root, folder or "/") if one.startswith(name)]
    except OSError:
        return []
    for one in listed:
        if not ROTATED.fullmatch(one[len(name) :]) or one.endswith(".gz"):
            continue
        piece = Source(source.root, f"{folder}/{one}", one, uid=source.uid)
        with contextlib.suppress(OSError), opened(piece) as reading:
            status = os.fstat(reading)
            key, written = (status.st_dev, status.st_ino), status.st_mtime_ns
            if key not in known and written >= last:
                found.append((written, OpenFile(os.dup(reading), 0, read_to.get(key))))
    found.sort(key=lambda pair: pair[0])
    return [one for _, one in found]


def said(error: OSError) -> str:
    """`/var/log/kern.log: Permission denied`; Refused says itself why."""
    name = error.filename if isinstance(error.filename, str) else ""
    return f"{name}: {error.strerror or error}" if name else str(error.strerror or error)
