"""A folder, an archive or a single file of evidence -> `Evidence`: every observation, and every doubt, in one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.plain_bytes import plain
from rankmuster.evidence.readers import all_readers
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.problem import Problem, ProblemKind

MAX_NAMED_UNREAD = 200
"""Unread files that are named one by one: more than anyone reads. What follows is counted."""

_PROBE = 4096

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read. `by_type`: observations in the order of their sources; use `of`."""

    by_type: Mapping[type, tuple[object, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    sources: tuple[Source, ...] = ()

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """All observations of exactly this type."""
        return cast("tuple[T, ...]", self.by_type.get(kind, ()))


def load(path: Path) -> Evidence:
    """Reads a bundle, any folder of evidence, an archive of one, or a single file.

    Raises folder.EvidenceMissing, EvidenceEmpty, EvidenceForbidden, or EvidenceUnreadable for a single file of which
    nothing can be used; whatever else is wrong becomes a Problem.
    """
    # Loaded where files are read: a watch judges what it has seen itself, and keeps no archives' formats in memory.
    from rankmuster.evidence import folder
    from rankmuster.evidence.packed_stream import Allowance
    from rankmuster.evidence.unpack import unpack

    allowance = Allowance()
    digests: Mapping[str, str] = {}
    gathering = _Gathering(all_readers())
    for item in folder.walk(path):
        if isinstance(item, Problem):
            gathering.problems.append(item)
            continue
        gathering.verify(item, digests)
        for part in unpack(item, allowance):
            gathering.take(part)
        if not digests:
            digests = gathering.digests()
    evidence = gathering.evidence()
    if not evidence.by_type and evidence.problems and not path.is_dir():
        # In a folder one bad file is a footnote; alone it is the whole answer.
        unread = [problem for problem in evidence.problems if problem.kind is ProblemKind.UNREAD]
        reason = (unread or evidence.problems)[0].message
        raise folder.EvidenceUnreadable(f"{path}: nothing in it can be used: {reason}")
    return evidence


def gather(parts: Iterable[Blob | Problem], readers: tuple[Reader, ...] | None = None) -> Evidence:
    """The same for blobs already in memory (what a collector has just taken)."""
    gathering = _Gathering(all_readers() if readers is None else readers)
    for part in parts:
        gathering.take(part)
    return gathering.evidence()


class _Gathering:
    """What has been read so far; blobs are dropped as soon as they are read."""

    def __init__(self, readers: tuple[Reader, ...]) -> None:
        self._documents = [reader for reader in readers if reader.kind is ReaderKind.DOCUMENT]
        self._lines = [reader for reader in readers if reader.kind is ReaderKind.LINES]
        self._by_type: dict[type, list[object]] = {}
        self._sources: list[Source] = []
        self._unread = 0
        self.problems: list[Problem] = []

    def take(self, part: Blob | Problem) -> None:
        if isinstance(part, Problem):
            self.problems.append(part)
            return
        part, left_out = plain(part)
        self.problems.extend([left_out] if left_out is not None else [])
        if not part.data:
            self._name_unread(Problem(ProblemKind.UNREAD, part.path, "the file is empty"))
            self._sources.append(Source(part.path, 0, ()))
            return
        self._sources.append(Source(part.path, len(part.data), self._readers_of(part)))

    def _readers_of(self, blob: Blob) -> tuple[str, ...]:
        """The one document reader that makes something of it, else every lines reader that does."""
        if blob.data.startswith(_CLOSED):
            # What is stored in it uncompressed would be read between the bytes of its headers.
            self._name_unread(Problem(ProblemKind.UNREAD, blob.path, _describe(blob)))
            return ()
        refused: list[Problem] = []
        for reader in self._documents:
            reading = self._attempt(reader, blob)
            if reading is None:
                continue
            if reading.known:
                self._keep(reading)
                return (reader.name,)
            refused.extend(reading.problems)
        readers = self._shared_lines(blob)
        if not readers:
            # What a reader said of a file that it recognised explains more than "no reader knows it".
            for problem in refused or [Problem(ProblemKind.UNREAD, blob.path, _describe(blob))]:
                self._name_unread(problem)
        return readers

    def _shared_lines(self, blob: Blob) -> tuple[str, ...]:
        readers: list[str] = []
        for reader in self._lines if _mostly_text(blob.data) else ():
            reading = self._attempt(reader, blob)
            if reading is None:
                continue
            if reading.known or reading.observations:
                readers.append(reader.name)
            self._keep(reading)
        return tuple(readers)

    def _attempt(self, reader: Reader, blob: Blob) -> Reading | None:
        """None when the reader has nothing to say. One that fails costs its own reading, not the verdict."""
        try:
            return reader.read(blob) if reader.recognises(blob) else None
        except Exception as error:  # a defect of the reader; the other evidence still counts
            message = f"the reader {reader.name!r} failed on it ({type(error).__name__}: {error}); please report this"
            self.problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
            return None

    def _keep(self, reading: Reading) -> None:
        for observation in reading.observations:
            self._by_type.setdefault(type(observation), []).append(observation)
        self.problems.extend(reading.problems)

    def _name_unread(self, problem: Problem) -> None:
        self._unread += 1
        if self._unread <= MAX_NAMED_UNREAD:
            self.problems.append(problem)

    def digests(self) -> dict[str, str]:
        manifests = cast("list[ManifestFacts]", self._by_type.get(ManifestFacts, []))
        return {path: digest for facts in manifests for path, digest in facts.digests.items()}

    def verify(self, blob: Blob, digests: Mapping[str, str]) -> None:
        """Says when a file is not the one that the manifest speaks of; it is read all the same."""
        wanted = digests.get(blob.path)
        if wanted is None:
            return
        import hashlib  # OpenSSL, 4 MB, which a watch judges without

        if hashlib.sha256(blob.data).hexdigest() != wanted:
            message = "its sha256 is not the manifest's: it was changed, or not copied whole; it was read all the same"
            self.problems.append(Problem(ProblemKind.CORRUPT, blob.path, message))

    def evidence(self) -> Evidence:
        problems = list(self.problems)
        if self._unread > MAX_NAMED_UNREAD:
            message = f"{self._unread - MAX_NAMED_UNREAD} more files are empty or known to no reader"
            problems.append(Problem(ProblemKind.UNREAD, ".", message))
        # The order in which files arrive is a collector's or a file system's; the same bundle gives the same verdict.
        grouped = {kind: tuple(sorted(values, key=_source)) for kind, values in self._by_type.items()}
        return Evidence(grouped, tuple(problems), tuple(self._sources))


def _source(observation: object) -> str:
    """The file that an observation is from, directly or by its line's origin."""
    source = getattr(observation, "source", None)
    return str(source if source is not None else getattr(getattr(observation, "origin", None), "source", ""))


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
