"""Whether a bundle is what was written: every file by size and digest, none missing, none added, the manifest sealed.

Folders and archives alike; an archive is streamed, not unpacked. Findings name everything that is wrong, since a bundle
that was changed is still evidence of something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.bundle.contents import BundleUnreadable, TooMuch, scan
from rankmuster.collect.bundle.manifest import MAX_MANIFEST_BYTES, Manifest, ManifestRefused, parse
from rankmuster.collect.bundle.paths import MANIFEST, folded, folders_of, objection

PART = ".part"
"""Ends the name of a folder that a collection writes into."""


class Wrong(str, Enum):
    """What is wrong with a file, or with the whole."""

    NO_MANIFEST = "no manifest"
    MANIFEST = "manifest"
    SEAL = "seal"
    MISSING = "missing"
    EXTRA = "extra"
    SIZE = "size"
    DIGEST = "digest"
    NAME = "name"
    TWICE = "twice"
    NOT_A_FILE = "not a file"
    DAMAGED = "damaged"
    TOO_MUCH = "too much"


@dataclass(frozen=True, slots=True)
class Finding:
    """`path`: the file, empty for the whole bundle; `message`: one clause."""

    wrong: Wrong
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """`files`, `size`: of what was found sound. `manifest`: None when it could not be used."""

    findings: tuple[Finding, ...]
    files: int
    size: int
    manifest: Manifest | None

    @property
    def ok(self) -> bool:
        """Whether the bundle is whole and unchanged."""
        return not self.findings


def verify(path: Path) -> Verification:
    """Looks at every byte of the bundle at `path`.

    Raises contents.BundleUnreadable where there is nothing to look at: no such path, no permission, no bundle's
    archive, or the schema of another major version.
    """
    taker = _Reckoning()
    try:
        scan(path, taker)
    except TooMuch as error:
        taker.findings.append(Finding(Wrong.TOO_MUCH, "", f"{error}; it was not read further"))
    taker.findings += taker.files_and_folders()
    if taker.manifest is None:
        message = f"there is no {MANIFEST}: this is no bundle"
        if PART in path.name:
            message = (
                f"there is no {MANIFEST}: the collection that wrote it was killed; `diagnose` reads it all the same"
            )
        return Verification((*taker.findings, Finding(Wrong.NO_MANIFEST, "", message)), 0, 0, None)
    try:
        manifest = parse(bytes(taker.manifest))
    except ManifestRefused as refusal:
        if refusal.unreadable:
            raise BundleUnreadable(f"{path}: {refusal}") from refusal
        return Verification((*taker.findings, Finding(Wrong.MANIFEST, MANIFEST, str(refusal))), 0, 0, None)
    findings = [*taker.findings, *_against(manifest, taker.found)]
    sound = [path for path, listed in manifest.files.items() if taker.found.get(path) == (listed.size, listed.sha256)]
    size = sum(manifest.files[path].size for path in sound)
    return Verification(tuple(sorted(findings, key=lambda f: (f.path, f.wrong.value))), len(sound), size, manifest)


def _against(manifest: Manifest, found: dict[str, tuple[int, str]]) -> list[Finding]:
    findings: list[Finding] = []
    if not manifest.sealed:
        message = "its seal is missing or not that of its content: it was changed"
        findings.append(Finding(Wrong.SEAL, MANIFEST, message))
    for path, listed in manifest.files.items():
        if path not in found:
            findings.append(Finding(Wrong.MISSING, path, "the manifest lists it, and it is not there"))
            continue
        size, digest = found[path]
        if size != listed.size:
            findings.append(Finding(Wrong.SIZE, path, f"it has {size} bytes, the manifest says {listed.size}"))
        elif digest != listed.sha256:
            findings.append(Finding(Wrong.DIGEST, path, "its sha256 is not the manifest's: its content was changed"))
    for path in found.keys() - manifest.files.keys() - {MANIFEST}:
        findings.append(Finding(Wrong.EXTRA, path, "the manifest does not list it"))
    return findings


class _Reckoning:
    """Takes contents: digests of all files, and the manifest's bytes."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.found: dict[str, tuple[int, str]] = {}
        self.manifest: bytearray | None = None
        self._folded: dict[str, str] = {}
        self._folders: set[str] = set()
        self._hash: hashlib._Hash | None = None

    def begin(self, name: str, size: int) -> Callable[[bytes], object] | None:
        name = name.removeprefix("./")
        reason = objection(name)
        if reason is not None:
            self.findings.append(Finding(Wrong.NAME, name[:200], reason))
            return None
        same = self._folded.setdefault(folded(name), name)
        if name in self.found or same != name:
            message = "it is there twice" if same == name else f"some file systems take its name for that of {same}"
            self.findings.append(Finding(Wrong.TWICE, name, message))
        self._folders.update(folded(folder) for folder in folders_of(name))
        self._hash = hashlib.sha256()
        if name != MANIFEST or self.manifest is not None:
            return self._hash.update
        if size > MAX_MANIFEST_BYTES:
            raise TooMuch(f"{MANIFEST} has {size >> 20} MiB")
        self.manifest = bytearray()
        return self.manifest.extend

    def end(self, name: str, size: int) -> None:
        name = name.removeprefix("./")
        if self._hash is not None:
            self.found[name] = (size, self._hash.hexdigest())
        self._hash = None

    def files_and_folders(self) -> list[Finding]:
        """Files that others need as their folder: no disk can hold both."""
        both = sorted(self._folders & self._folded.keys())
        return [Finding(Wrong.NAME, self._folded[name], "it is a file, and the folder of others") for name in both]

    def refuse(self, name: str, reason: str) -> None:
        self._hash = None
        wrong = Wrong.NOT_A_FILE if "no file" in reason else Wrong.DAMAGED
        self.findings.append(Finding(wrong, name[:200], reason))
