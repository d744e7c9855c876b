"""A sealed folder -> a `.tar.zst`: the same folder gives the same bytes, on any machine and any day."""

from __future__ import annotations

import os
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard

from rankmuster.collect.bundle.paths import MANIFEST

LEVEL = 3
"""Logs and dumps shrink to a tenth; higher levels take seconds that an incident does not have."""
MODE = 0o400
"""Of archives and files: evidence may be sensitive, and nobody changes it."""


def pack(folder: Path, document: Mapping[str, Any], target: Path) -> None:
    """Writes the archive beside `target` and gives it its name when it is whole and on disk.

    The manifest is the first member, then files by name; owner 0, time of the look or of the collection's end.
    Raises OSError (FileExistsError where the name is taken); nothing is left behind.
    """
    beside = target.with_name(f"{target.name[:200]}.{uuid.uuid4().hex[:8]}.part")
    default = document.get("finished") or 0
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "wb") as file:
            packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            with (
                packer.stream_writer(file, closefd=False) as stream,
                tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar,
            ):
                for name in (MANIFEST, *sorted(document["files"])):
                    look = document["files"].get(name, {}).get("look_time")
                    _add(tar, folder / name, name, int(default if look is None else look))
            file.flush()
            os.fsync(file.fileno())
        name_it(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, path: Path, name: str, mtime: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime = min(max(mtime, 0), 2**33 - 1)
    entry.mode = MODE
    with path.open("rb") as file:
        entry.size = os.fstat(file.fileno()).st_size
        tar.addfile(entry, file)


def name_it(beside: Path, target: Path) -> None:
    """Gives a finished file its name, never over another. Raises FileExistsError."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the race that is left is between two runs of one output
        if os.path.lexists(target):
            raise FileExistsError(f"{target} exists") from None
        os.rename(beside, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder last; file systems that cannot are not a reason to fail."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
