"""Where a collection writes: a folder beside the output that gets its name when the bundle is whole and on disk.

A process that is killed leaves a `.part` folder without a manifest: `diagnose` reads it, and it does not verify.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmuster.collect.bundle.digest import digest
from rankmuster.collect.bundle.manifest import sealed_bytes
from rankmuster.collect.bundle.pack import MODE, name_it, pack, sync_folder
from rankmuster.collect.bundle.paths import MANIFEST
from rankmuster.collect.bundle.verify import PART
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.sink import MAX_BYTES, Store, as_it_is
from rankmuster.collect.strip.text import scrub

ARCHIVE = ".tar.zst"
RESERVE_BYTES = 1 << 20
"""Kept free for the manifest of a disk that fills up: some 3000 files with 300 bytes each."""
_LEAST_RESERVE = 64 << 10
_RESERVE = ".reserve.part"
FOLDER_MODE = 0o700
"""Evidence may be sensitive; the owner can still remove it."""


class OutputRefused(Exception):
    """There is no place for the bundle (the output exists, cannot be written); the message says why and what to do."""


class NotWritten(Exception):
    """The bundle could not be finished. What was collected is in `part`, which `diagnose` reads."""

    def __init__(self, message: str, part: Path) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True, slots=True)
class Sealed:
    """Where the bundle is, how many files and bytes it holds, and what the operator should know besides."""

    path: Path
    files: int
    size: int
    notes: tuple[str, ...] = ()


class Staging:
    """The folder of one collection; `open_staging` makes it. One thread seals it."""

    def __init__(self, output: Path, folder: Path) -> None:
        self.output = output
        self.folder = folder

    @property
    def packed(self) -> bool:
        """Whether the bundle becomes an archive."""
        return self.output.name.endswith(ARCHIVE)

    def store(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        scrubber: Callable[[bytes], bytes] = scrub,
        raw_rule: Callable[[str, bytes], bytes] = as_it_is,
    ) -> Store:
        """Where collectors put their pieces."""
        return Store(self.folder, max_bytes=max_bytes, scrubber=scrubber, raw_rule=raw_rule)

    def seal(self, document: Mapping[str, Any], deadline: Deadline | None = None) -> Sealed:
        """Makes the bundle of what is in the folder: everything on disk, the manifest last, one rename.

        `document`: as `manifest.build` makes it, after the store was closed. What is in the folder and not listed is
        listed; what is listed and not there, or not whole, is named in `left_out`. `deadline`: after it nothing is
        waited for to reach the disk, which a note says.

        Raises NotWritten when not even the reserve is enough, or the name was taken meanwhile.
        """
        notes: list[str] = []
        try:
            complete = self._settle(dict(document))
            if self._sync(deadline):
                notes.append("the deadline came before everything was safe from a power failure")
            (self.folder / _RESERVE).unlink(missing_ok=True)
            self._write_manifest(complete)
            size = sum(entry["size"] for entry in complete["files"].values())
            place = self._pack(complete, notes) if self.packed else self._name(self.output)
        except OSError as error:
            (self.folder / MANIFEST).unlink(missing_ok=True)
            what = (
                f"the bundle could not be finished ({error.strerror or error}); what was collected is in {self.folder}"
            )
            raise NotWritten(f"{what}, and `rankmuster diagnose {self.folder}` reads it", self.folder) from error
        return Sealed(place, len(complete["files"]), size, tuple(notes))

    def abandon(self) -> None:
        """Removes the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _settle(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with the files that are really there; left-overs of abandoned writers are removed."""
        files = dict(document.get("files") or {})
        left_out = list(document.get("left_out") or [])
        there: dict[str, Path] = {}
        for base, _, names in os.walk(self.folder):
            for name in names:
                path = Path(base, name)
                if name.startswith(".") and name.endswith(PART):
                    if name != _RESERVE:
                        path.unlink(missing_ok=True)
                    continue
                there[path.relative_to(self.folder).as_posix()] = path
        there.pop(MANIFEST, None)
        for name in sorted(files.keys() - there.keys()):
            del files[name]
            left_out.append(f"{name} was taken and is not there any more")
        for name, path in there.items():
            entry = files.get(name)
            if entry is None or path.stat().st_size != entry["size"]:
                if entry is not None:
                    left_out.append(f"{name} is not as it was taken: it has another size")
                size, sha256 = digest(path)
                files[name] = {**(entry or {}), "size": size, "sha256": sha256}
        return {**document, "left_out": left_out, "files": {name: files[name] for name in sorted(files)}}

    def _sync(self, deadline: Deadline | None) -> bool:
        """Puts everything on disk, read-only; returns whether the deadline came first."""
        late = False
        for base, _, names in os.walk(self.folder, topdown=False):
            os.chmod(base, FOLDER_MODE)
            for name in names:
                path = Path(base, name)
                os.chmod(path, MODE)
                late = late or (deadline is not None and deadline.passed)
                if not late:
                    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
            if not late:
                sync_folder(Path(base))
        return late

    def _write_manifest(self, document: Mapping[str, Any]) -> None:
        beside = self.folder / f".{MANIFEST}{PART}"
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "wb") as file:
                file.write(sealed_bytes(document))
                file.flush()
                os.fsync(file.fileno())
            name_it(beside, self.folder / MANIFEST)
        finally:
            beside.unlink(missing_ok=True)

    def _name(self, target: Path) -> Path:
        if os.path.lexists(target):
            raise FileExistsError(17, "somebody else made the output meanwhile")
        os.rename(self.folder, target)
        sync_folder(target.parent)
        return target

    def _pack(self, document: Mapping[str, Any], notes: list[str]) -> Path:
        try:
            pack(self.folder, document, self.output)
        except OSError as error:
            # The folder is whole and on disk already: better that than nothing.
            stem = self.output.name.removesuffix(ARCHIVE)
            target = self.output.with_name(stem)
            if not stem or os.path.lexists(target):
                target = self.output.with_name(f"{stem}.{self.folder.name.split('.')[-2]}")
            notes.append(f"it could not be packed ({error.strerror or error}), so the bundle is a folder")
            return self._name(target)
        self.abandon()
        return self.output


def open_staging(output: Path, *, reserve: int = RESERVE_BYTES) -> Staging:
    """Makes the folder in which the bundle `output` comes about: a folder, or an archive where it ends in `.tar.zst`.

    Raises OutputRefused before anything is collected: it exists, or nothing can be written there.
    """
    output = Path(os.path.abspath(output))
    if os.path.lexists(output):
        raise OutputRefused(f"{output} exists; a bundle is never written over anything: name another output")
    if not output.name or len(os.fsencode(output.name)) > 200:
        raise OutputRefused(f"{str(output)[:100]}: that is no name for a bundle; name a folder or a {ARCHIVE}")
    folder = output.with_name(f"{output.name}.{uuid.uuid4().hex[:8]}{PART}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=FOLDER_MODE)
        try:
            _reserve(folder, reserve)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        raise OutputRefused(f"cannot write to {output.parent}: {error.strerror}; name another output") from error
    return Staging(output, folder)


def _reserve(folder: Path, size: int) -> None:
    """Takes room that is given back for the manifest. Raises OSError when there is hardly any."""
    path = folder / _RESERVE
    while True:
        try:
            with path.open("wb") as file:
                try:
                    os.posix_fallocate(file.fileno(), 0, max(size, 1))
                except OSError as error:
                    if error.errno == 28:
                        raise
                    file.write(os.urandom(size))  # a file system that cannot, or that packs zeros away
            return
        except OSError:
            if size <= _LEAST_RESERVE:
                raise
            size = max(size // 4, _LEAST_RESERVE)
