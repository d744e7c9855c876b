"""The manifest of a bundle: what its files cannot say of themselves, how each collector ended, and a seal. Pure.

The seal is the last field: the sha256 of the manifest's own bytes with the seal's 64 digits written as zeros. It tells
damage and careless editing, as the files' digests do; it is no signature, since who changes a file can seal again.
Fields may be added by later versions and are not looked at here; another number behind `rankmuster.bundle/` is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.collect.bundle.paths import MANIFEST, objection
from rankmuster.collect.outcome import Report
from rankmuster.collect.sink import Piece
from rankmuster.collect.strip.secrets import scrub_words

SCHEMA = "rankmuster.bundle/1"
MAX_MANIFEST_BYTES = 32 << 20
"""Of a manifest that is read: 100,000 files with 300 bytes each take 30 MiB."""
MAX_FILES = 100_000
"""Of one bundle, as the evidence layer reads (`evidence.folder.MAX_FILES`)."""

_FAMILY = re.compile(r"rankmuster\.bundle/(\d{1,6})(?:\.\d{1,6})*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ZEROS = "0" * 64


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the collection as a whole was. Times in unix seconds; `instance`: None where none was found.

    `notes`: what the operator should know; `wishes`: what was asked for, as plain values; `clock_offsets`: host ->
    seconds to add to reach the collector's clock.
    """

    tool_version: str
    host: str
    started: float
    finished: float
    deadline_seconds: float
    instance: Mapping[str, object] | None = None
    notes: tuple[str, ...] = ()
    wishes: Mapping[str, object] | None = None
    clock_offsets: Mapping[str, float] = field(default_factory=dict)


class ManifestRefused(Exception):
    """The manifest cannot be used; the message says why. `unreadable`: by this version at all."""

    def __init__(self, message: str, *, unreadable: bool = False) -> None:
        super().__init__(message)
        self.unreadable = unreadable


@dataclass(frozen=True, slots=True)
class Listed:
    """One file as a manifest lists it."""

    size: int
    sha256: str
    collector: str | None = None
    look_time: float | None = None
    rank: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was read. `document`: the whole, with fields of later versions. `sealed`: whether the seal is right."""

    files: Mapping[str, Listed]
    host: str | None
    document: Mapping[str, Any] = field(repr=False)
    sealed: bool


def build(pieces: Iterable[Piece], ended: Iterable[Report], around: Circumstances) -> dict[str, Any]:
    """The document; `sealed_bytes` writes it. The same arguments give the same document."""
    return {
        "schema": SCHEMA,
        # Before the files and the instance: readers tell a manifest by its first 64 KiB, and by this word.
        "collectors": {one.name: _collector(one) for one in ended},
        "tool": {"name": "rankmuster", "version": around.tool_version},
        "host": around.host,
        "instance": dict(around.instance) if around.instance is not None else None,
        "started": _number(around.started),
        "finished": _number(around.finished),
        "deadline_seconds": _number(around.deadline_seconds),
        "clock_offsets": {host: _number(value) for host, value in sorted(around.clock_offsets.items())},
        "notes": [scrub_words(text) for text in around.notes],
        "left_out": [],
        "wishes": dict(around.wishes or {}),
        "files": {piece.path: listing(piece) for piece in sorted(pieces, key=lambda piece: piece.path)},
    }


def listing(piece: Piece) -> dict[str, Any]:
    """One entry of `files`; what is not known is left out."""
    entry: dict[str, Any] = {"size": piece.size, "sha256": piece.sha256, "collector": piece.collector}
    if piece.look_time is not None and math.isfinite(piece.look_time):
        entry["look_time"] = round(piece.look_time, 6)
    if piece.rank is not None:
        entry["rank"] = piece.rank
    if piece.host is not None:
        entry["host"] = piece.host
    return entry


def _collector(one: Report) -> dict[str, Any]:
    return {
        "outcome": one.outcome.ending.value,
        "note": scrub_words(one.outcome.note),
        "warnings": [scrub_words(text) for text in one.outcome.warnings],
        "started": _number(one.started),
        "seconds": _number(one.seconds),
        "budget_seconds": _number(one.budget_seconds),
        "files": list(one.files),
    }


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def sealed_bytes(document: Mapping[str, Any]) -> bytes:
    """The manifest's bytes, with its seal as the last field. What JSON has no word for is written as text."""
    unsealed = {key: value for key, value in document.items() if key != "seal"} | {"seal": _ZEROS}
    data = (json.dumps(unsealed, indent=1, ensure_ascii=True, default=str) + "\n").encode("ascii")
    return data[: -len(_tail(_ZEROS))] + _tail(hashlib.sha256(data).hexdigest())


def _tail(seal: str) -> bytes:
    return f'"seal": "{seal}"\n}}\n'.encode("ascii")


def parse(data: bytes) -> Manifest:
    """Reads a manifest of this major version, any minor one.

    Raises ManifestRefused where it, or an entry of a file, cannot be understood.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestRefused(f"{MANIFEST} has {len(data) >> 20} MiB, more than any bundle needs", unreadable=True)
    try:
        document = json.loads(data, object_pairs_hook=_without_doubles, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise ManifestRefused(f"{MANIFEST} is no JSON ({error}): it was cut or changed") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    family = _FAMILY.fullmatch(schema) if isinstance(schema, str) else None
    if not isinstance(document, dict) or family is None:
        raise ManifestRefused(f"{MANIFEST} is not that of a bundle: its schema is {str(schema)[:60]!r}, not {SCHEMA!r}")
    if family.group(1) != "1":
        message = f"the bundle has schema {schema!r}; this version reads {SCHEMA!r}. Use the rankmuster that wrote it"
        raise ManifestRefused(message, unreadable=True)
    listed = document.get("files")
    if not isinstance(listed, dict) or len(listed) > MAX_FILES:
        what = f"{len(listed)} files" if isinstance(listed, dict) else "no map of files"
        raise ManifestRefused(f"{MANIFEST} lists {what}; at most {MAX_FILES} can be verified")
    files = {path: _listed(path, entry) for path, entry in listed.items()}
    host = document.get("host")
    return Manifest(files, host if isinstance(host, str) else None, document, _sealed(data, document.get("seal")))


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two entries of one name: readers would disagree on which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        double = next(name for name, count in counts.items() if count > 1)
        raise ManifestRefused(f"{MANIFEST} says {double[:80]!r} twice")
    return found


def _listed(path: str, entry: object) -> Listed:
    reason = objection(path)
    if reason is not None:
        raise ManifestRefused(f"{MANIFEST} lists a file that no bundle may hold: {reason} ({path[:80]!r})")
    size = entry.get("size") if isinstance(entry, dict) else None
    digest = entry.get("sha256") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ManifestRefused(f"{MANIFEST} gives no usable size for {path}")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ManifestRefused(f"{MANIFEST} gives no usable sha256 for {path}")
    rank, look, host, collector = (entry.get(key) for key in ("rank", "look_time", "host", "collector"))
    return Listed(
        size,
        digest,
        collector if isinstance(collector, str) else None,
        finite(look),
        rank if isinstance(rank, int) and not isinstance(rank, bool) else None,
        host if isinstance(host, str) else None,
    )


def finite(value: object) -> float | None:
    """A number that can be reckoned with, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _sealed(data: bytes, seal: object) -> bool:
    if not isinstance(seal, str) or not _SHA256.fullmatch(seal):
        return False
    written = f'"seal": "{seal}"'.encode("ascii")
    if data.count(written) != 1:
        return False
    return hashlib.sha256(data.replace(written, f'"seal": "{_ZEROS}"'.encode("ascii"))).hexdigest() == seal
