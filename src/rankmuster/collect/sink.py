"""Where collectors put what they took: a folder that is not a bundle yet.

Each piece is a file of its own that is on disk as soon as `put` returns, so that whatever happens next it is kept.
After `close` nothing can be changed any more: a collector that was abandoned at its deadline writes into nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rankmuster.collect.strip.secrets import scrub_words
from rankmuster.collect.strip.shapes import mask_tokens
from rankmuster.collect.strip.text import scrub

_SAFE = re.compile(r"[^A-Za-z0-9._+=@-]")
_ENDINGS = frozenset({".log", ".out", ".err", ".txt", ".json"})
MAX_NAME = 120
"""Bytes of one part of a path: far below the 255 that file systems take, since suffixes are added."""


MAX_BYTES = 2 << 30
"""Of one bundle: more than a node's dumps, logs and counters together, and less than a disk that others need too."""


class SinkClosed(Exception):
    """The bundle is being closed; what comes now is too late."""


class SinkFull(Exception):
    """The disk (or the bundle's own limit) has no room; what was put before is kept."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of the bundle: what its content cannot say of itself. Times in unix seconds."""

    path: str
    collector: str
    size: int
    sha256: str
    look_time: float | None = None
    rank: int | None = None
    host: str | None = None


def safe_name(name: str) -> str:
    """One part of a path without anything that a file system or a reader could stumble over; never empty or hidden.

    No dots at its end: some file systems drop them, and `a` and `a.` would be one file there, which does not verify.
    """
    cleaned = _SAFE.sub("-", name).lstrip(".-")[:MAX_NAME].rstrip(".")
    return cleaned or "unnamed"


def _told(part: str) -> str:
    """A part of a path without secrets; a file that is masked to its end keeps the ending of its kind."""
    clean = scrub_words(mask_tokens(part))
    ending = os.path.splitext(part)[1]
    return clean if ending not in _ENDINGS or clean.endswith(ending) else clean + ending


def as_it_is(_collector: str, data: bytes) -> bytes:
    """The rule for raw pieces where nobody wants another."""
    return data


class Store:
    """The folder and the list of its pieces; shared by all collectors, so it locks."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        scrubber: Callable[[bytes], bytes] = scrub,
        raw_rule: Callable[[str, bytes], bytes] = as_it_is,
    ) -> None:
        """`raw_rule`: what becomes of pieces that are kept raw, by collector: nothing, unless somebody wants it so."""
        self.folder = folder
        self._max_bytes = max_bytes
        self._scrub = scrubber
        self._raw_rule = raw_rule
        self._lock = threading.Lock()
        self._closed = False
        self._bytes = 0
        self._pieces: dict[str, Piece] = {}
        self._folded: set[str] = set()
        self._refused: str | None = None

    @property
    def refused(self) -> str | None:
        """Why there was no room for a piece, of the first that found none; None while there was room for all."""
        return self._refused

    def sink(self, collector: str) -> Sink:
        """A collector's own entrance."""
        return Sink(self, collector)

    def close(self) -> tuple[Piece, ...]:
        """Takes nothing more, and says what there is, by path."""
        with self._lock:
            self._closed = True
            return tuple(self._pieces[path] for path in sorted(self._pieces))

    def pieces(self) -> tuple[Piece, ...]:
        """What there is so far."""
        with self._lock:
            return tuple(self._pieces.values())

    def keep(
        self,
        collector: str,
        path: str,
        data: bytes,
        *,
        look_time: float | None,
        rank: int | None,
        host: str | None,
        text: bool,
        replace: bool,
    ) -> str:
        """See `Sink.put`."""
        data = self._scrub(data) if text else self._raw_rule(collector, data)
        # Jobs name their logs; a secret in a name is one all the same.
        parts = [safe_name(_told(part)) for part in PurePosixPath(path).parts if part not in ("/", "..", ".")] or [
            "unnamed"
        ]
        with self._lock:
            if self._closed:
                raise SinkClosed(f"{path} came after the bundle was closed")
            wanted = "/".join(parts)
            name = wanted if replace else self._free(wanted)
            earlier = self._pieces.get(name)
            room = self._max_bytes - self._bytes + (earlier.size if earlier else 0)
            if len(data) > room:
                raise self._full(
                    f"the bundle may hold {self._max_bytes} bytes, and {name} with {len(data)} does not fit"
                )
            target = self.folder / name
            part = target.with_name(f".{target.name}.part")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with part.open("wb") as file:
                    file.write(data)
                part.replace(target)
            except OSError as error:
                with contextlib.suppress(OSError):
                    part.unlink()
                raise self._full(f"cannot write {name}: {error.strerror or error}") from error
            self._bytes += len(data) - (earlier.size if earlier else 0)
            self._folded.add(name.casefold())
            self._pieces[name] = Piece(
                name, collector, len(data), hashlib.sha256(data).hexdigest(), look_time, rank, host
            )
            return name

    def _full(self, why: str) -> SinkFull:
        self._refused = self._refused or why
        return SinkFull(why)

    def _free(self, wanted: str) -> str:
        """The name, or the name with a number: two ranks may write files of one name.

        Names that differ only by case count as one: the bundle may be unpacked where they are.
        """
        if wanted.casefold() not in self._folded:
            return wanted
        stem, ending = os.path.splitext(wanted)
        return next(name for n in range(2, 1 << 20) if (name := f"{stem}-{n}{ending}").casefold() not in self._folded)


class Sink:
    """One collector's entrance to the store."""

    def __init__(self, store: Store, collector: str) -> None:
        self._store = store
        self.collector = collector

    def put(
        self,
        path: str,
        data: bytes,
        *,
        look_time: float | None = None,
        rank: int | None = None,
        host: str | None = None,
        text: bool = False,
        replace: bool = False,
    ) -> str:
        """Keeps `data` under `path` (relative, `/` between parts) and returns the path used.

        `text`: secrets are scrubbed by rule (everything that people or programs wrote freely: logs, stacks, kernel
        lines). What is kept raw (RAS replies, dumps, counters) must not hold any. `replace`: an earlier piece of this
        name is replaced (a growing series of samples), else the new one gets a number.
        `look_time`: when it was taken, for what does not say so itself; `rank`: global rank; `host`: the host's name.

        Raises SinkClosed after the end, SinkFull when there is no room.
        """
        return self._store.keep(
            self.collector, path, data, look_time=look_time, rank=rank, host=host, text=text, replace=replace
        )

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """What this collector has put so far."""
        return tuple(piece for piece in self._store.pieces() if piece.collector == self.collector)
