"""One piece of evidence through the readers: the one document reader that takes it, or all that know lines of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.plain_bytes import plain
from rankmuster.evidence.readers import documents, lines
from rankmuster.model.problem import Problem, ProblemKind

_PROBE = 4096

_MAGIC = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\xfd7zXZ\0", "an xz archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"\x7fELF", "a program or core dump"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x80", "perhaps a pickle, but no Flight Recorder dump"),
)
_CLOSED = tuple(magic for magic, _ in _MAGIC if magic != b"\x80")


@dataclass(frozen=True, slots=True)
class Source:
    """One file as it was read: path (archive members behind `!`), unpacked bytes, and who made something of it."""

    path: str
    size: int
    readers: tuple[str, ...]


Part: TypeAlias = Blob | Problem
"""What a folder or an archive gives: a piece of evidence, or why there is none."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was made of one part. `named`: problems of a part that no reader knows, of which only so many are told."""

    source: Source | None
    observations: tuple[object, ...] = ()
    problems: tuple[Problem, ...] = ()
    named: tuple[Problem, ...] = ()


def take(part: Part, readers: tuple[Reader, ...] | None = None) -> Taken:
    """What the one document reader that makes something of it, else every lines reader that does, read in `part`."""
    if isinstance(part, Problem):
        return Taken(None, problems=(part,))
    part, left_out = plain(part)
    problems = [left_out] if left_out is not None else []
    if not part.data:
        named = Problem(ProblemKind.UNREAD, part.path, "the file is empty")
        return Taken(Source(part.path, 0, ()), problems=tuple(problems), named=(named,))
    taking = _Taking(part, readers, problems)
    source = Source(part.path, len(part.data), taking.readers())
    return Taken(source, tuple(taking.observations), tuple(taking.problems), tuple(taking.named))


class _Taking:
    """One blob, and what the readers made of it."""

    def __init__(self, blob: Blob, readers: tuple[Reader, ...] | None, problems: list[Problem]) -> None:
        self._blob = blob
        self._readers = readers
        self.observations: list[object] = []
        self.problems = problems
        self.named: list[Problem] = []

    def readers(self) -> tuple[str, ...]:
        """The names of those that took it."""
        if self._blob.data.startswith(_CLOSED):
            # What is stored in it uncompressed would be read between the bytes of its headers.
            self.named.append(Problem(ProblemKind.UNREAD, self._blob.path, _describe(self._blob)))
            return ()
        refused: list[Problem] = []
        for reader in documents() if self._readers is None else self._of_kind(ReaderKind.DOCUMENT):
            reading = self._attempt(reader)
            if reading is None:
                continue
            if reading.known:
                self._keep(reading)
                return (reader.name,)
            refused.extend(reading.problems)
        names = self._shared_lines()
        if not names:
            # What a reader said of a file that it recognised explains more than "no reader knows it".
            self.named += refused or [Problem(ProblemKind.UNREAD, self._blob.path, _describe(self._blob))]
        return names

    def _shared_lines(self) -> tuple[str, ...]:
        names: list[str] = []
        if not _mostly_text(self._blob.data):
            return ()
        for reader in lines() if self._readers is None else self._of_kind(ReaderKind.LINES):
            reading = self._attempt(reader)
            if reading is None:
                continue
            if reading.known or reading.observations:
                names.append(reader.name)
            self._keep(reading)
        return tuple(names)

    def _of_kind(self, kind: ReaderKind) -> Iterator[Reader]:
        return (reader for reader in self._readers or () if reader.kind is kind)

    def _attempt(self, reader: Reader) -> Reading | None:
        """None when the reader has nothing to say. One that fails costs its own reading, not the verdict."""
        try:
            return reader.read(self._blob) if reader.recognises(self._blob) else None
        except Exception as error:  # a defect of the reader; the other evidence still counts
            message = f"the reader {reader.name!r} failed on it ({type(error).__name__}: {error}); please report this"
            self.problems.append(Problem(ProblemKind.DAMAGED, self._blob.path, message))
            return None

    def _keep(self, reading: Reading) -> None:
        self.observations += reading.observations
        self.problems += reading.problems


def _mostly_text(data: bytes) -> bool:
    """Whether log lines may be looked for: a core dump holds some too, of other days and other processes."""
    if text.is_text(data):
        return True
    return text.is_text(data[len(data) // 2 :]) and text.is_text(data[-_PROBE:])


def _describe(blob: Blob) -> str:
    named = next((words for magic, words in _MAGIC if blob.data.startswith(magic)), None)
    if named is not None:
        return f"no reader knows it: {named}"
    if text.is_text(blob.data):
        first = text.head(blob.data, 512).strip().splitlines() or [""]
        return f"no line of it is known to a reader; it begins {first[0][:60]!r}"
    return f"no reader knows it: binary, first bytes {blob.data[:8].hex(' ')}"
