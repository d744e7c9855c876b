"""One node's bundle, as a merge sees it: whose it is, and its files unpacked below a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rankmuster.collect.bundle.contents import TooMuch, scan
from rankmuster.collect.bundle.manifest import Listed, Manifest, finite
from rankmuster.collect.bundle.pack import MODE
from rankmuster.collect.bundle.paths import MANIFEST, folded, objection
from rankmuster.collect.bundle.verify import Verification, verify
from rankmuster.collect.sink import safe_name

INSTANCE = "instance.json"
MAX_INSTANCE_BYTES = 16 << 20
"""Of an `instance.json`: ten thousand processes with a KiB each, and some."""
MAX_UNLISTED_BYTES = 256 << 20
"""Of all files of a node that its manifest does not list, which `force` takes: more than a whole collection of a node
usually has, and too little for a bomb of a few hundred KiB to fill a disk."""


class MergeRefused(Exception):
    """The bundles are not merged; the message says which one is in the way, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """`label`: what the node's files stand under and its collectors are told by: the host, numbered where a host has
    several looks. `instance`: the node's `instance.json`, empty without one. `document`: its manifest."""

    source: Path
    host: str
    label: str
    manifest: Manifest
    instance: Mapping[str, Any]
    sound: bool = True
    notes: tuple[str, ...] = ()

    @property
    def document(self) -> Mapping[str, Any]:
        return self.manifest.document

    @property
    def finished(self) -> float:
        """When the collection ended, 0 when it does not say."""
        return finite(self.document.get("finished")) or 0.0


def look(source: Path, *, force: bool) -> Node:
    """Verifies a bundle and reads who it is of.

    Raises MergeRefused, contents.BundleUnreadable. `force`: a bundle that does not verify is taken as far as it can be.
    """
    result = verify(source)
    if result.findings and not force:
        first = result.findings[0]
        where = f" ({first.path})" if first.path else ""
        raise MergeRefused(
            f"{source} does not verify: {first.message}{where}; {len(result.findings)} finding(s) in all. Copy it "
            "again, or merge with --force what can be used of it"
        )
    if result.manifest is None:
        raise MergeRefused(
            f"{source} has no usable manifest, so that nobody can say which node it is of: {_first(result)}"
        )
    if isinstance(result.manifest.document.get("nodes"), dict):
        raise MergeRefused(f"{source} is a merged bundle already; merge the bundles of the nodes in one go")
    wanted = _Wanted({INSTANCE})
    with contextlib.suppress(TooMuch):  # the verification has said so, and `force` takes what came before
        scan(source, wanted)
    instance, note = _instance(wanted.data.get(INSTANCE))
    host = result.manifest.host or _host_of(instance) or source.name
    notes = [f"{source.name} did not verify: {finding.message} ({finding.path})" for finding in result.findings[:20]]
    return Node(
        source, host, safe_name(host), result.manifest, instance, result.ok, (*notes, *((note,) if note else ()))
    )


def _first(result: Verification) -> str:
    return str(result.findings[0].message) if result.findings else "it is empty"


def _instance(data: bytes | None) -> tuple[Mapping[str, Any], str | None]:
    if data is None:
        return {}, None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return {}, f"its {INSTANCE} cannot be read: {error}"
    return (document, None) if isinstance(document, dict) else ({}, f"its {INSTANCE} is no object")


def _host_of(instance: Mapping[str, Any]) -> str | None:
    """The one host of the node's processes, where the manifest names none."""
    processes = instance.get("processes")
    hosts = (
        {entry.get("host") for entry in processes if isinstance(entry, dict)} if isinstance(processes, list) else set()
    )
    host = hosts.pop() if len(hosts) == 1 else None
    return host if isinstance(host, str) and host else None


@dataclass
class _Wanted:
    """Takes the content of a few small files."""

    names: set[str]
    data: dict[str, bytes] = field(default_factory=dict)
    _buffer: bytearray = field(default_factory=bytearray)

    def begin(self, name: str, size: int) -> Callable[[bytes], object] | None:
        self._buffer = bytearray()
        if name.removeprefix("./") not in self.names or size > MAX_INSTANCE_BYTES:
            return None
        return self._buffer.extend

    def end(self, name: str, size: int) -> None:
        name = name.removeprefix("./")
        if name in self.names and size <= MAX_INSTANCE_BYTES:
            self.data.setdefault(name, bytes(self._buffer))

    def refuse(self, name: str, reason: str) -> None:  # noqa: ARG002  # verification has named it
        return


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What was written of one node: file -> (size, sha256), by the node's own paths."""

    files: Mapping[str, tuple[int, str]]
    notes: tuple[str, ...]


def unpack_node(node: Node, folder: Path, *, force: bool) -> Unpacked:
    """Writes the node's files below `folder`, which is the only place where anything is written.

    Of a bundle that verified, every byte is compared again: it could have been changed since. Raises MergeRefused,
    OSError where there is no room.
    """
    writer = _Writer(folder, node.manifest.files, force)
    try:
        scan(node.source, writer)
    except TooMuch as error:
        writer.notes.append(f"{node.source.name}: {error}")
        if not force:
            raise MergeRefused(f"{node.source}: {error}") from error
    finally:
        writer.close()
    if writer.notes and not force:
        raise MergeRefused(f"{node.source} changed while it was read: {writer.notes[0]}; merge again")
    return Unpacked(writer.files, tuple(writer.notes))


class _Writer:
    """Takes contents: every file with a safe name goes to disk, with its digest."""

    def __init__(self, folder: Path, listed: Mapping[str, Listed], force: bool) -> None:
        self.files: dict[str, tuple[int, str]] = {}
        self.notes: list[str] = []
        self._folder, self._listed, self._force = folder, listed, force
        self._folded: set[str] = set()
        self._file: BinaryIO | None = None
        self._hash: hashlib._Hash | None = None
        self._written = 0
        self._surplus = 0

    def begin(self, name: str, size: int) -> Callable[[bytes], object] | None:
        self.close()
        name = name.removeprefix("./")
        if name in (MANIFEST, INSTANCE):
            return None
        reason = objection(name)
        if reason is None and folded(name) in self._folded:
            reason = "it is there twice, or some file systems take it for another"
        if reason is None and name not in self._listed and not self._force:
            reason = "the manifest does not list it"
        if reason is not None:
            self.notes.append(f"{name[:200]!r} was left out: {reason}")
            return None
        listed = self._listed.get(name)
        self._surplus += max(size - listed.size, 0) if listed is not None else size
        if self._surplus > MAX_UNLISTED_BYTES:
            raise TooMuch(f"what its manifest does not list has more than {MAX_UNLISTED_BYTES >> 20} MiB")
        self._folded.add(folded(name))
        target = self._folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(target, flags, MODE), "wb")
        except (FileExistsError, NotADirectoryError):
            self.notes.append(f"{name[:200]!r} was left out: another file stands where its folder should be")
            return None
        self._hash, self._written = hashlib.sha256(), 0
        return self._take

    def _take(self, data: bytes) -> None:
        if self._file is not None and self._hash is not None:
            self._file.write(data)
            self._hash.update(data)
            self._written += len(data)

    def end(self, name: str, size: int) -> None:  # noqa: ARG002  # as written counts
        name = name.removeprefix("./")
        if self._file is None or self._hash is None:
            return
        digest = self._hash.hexdigest()
        self.close()
        self.files[name] = (self._written, digest)
        listed = self._listed.get(name)
        if listed is not None and (listed.size, listed.sha256) != self.files[name]:
            self.notes.append(f"{name} is not what its manifest says")

    def refuse(self, name: str, reason: str) -> None:
        self.close()
        self.notes.append(f"{name[:200]!r} was left out: {reason}")

    def close(self) -> None:
        """Ends the file that is being written."""
        if self._file is not None:
            self._file.close()
        self._file = self._hash = None
