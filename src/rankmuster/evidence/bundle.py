"""A folder, an archive or a single file of evidence -> `Evidence`: every observation, and every doubt, in one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from rankmuster.evidence.blob import Blob, Reader
from rankmuster.evidence.take import Part, Source, Taken, take
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.problem import Problem, ProblemKind

MAX_NAMED_UNREAD = 200
"""Unread files that are named one by one: more than anyone reads. What follows is counted."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read. `by_type`: observations in the order of their sources; use `of`."""

    by_type: Mapping[type, tuple[object, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    sources: tuple[Source, ...] = ()

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """All observations of exactly this type."""
        return cast("tuple[T, ...]", self.by_type.get(kind, ()))


Each: TypeAlias = Callable[[Callable[[Part], Taken], Iterable[Part]], Iterable[Taken]]
"""How parts are read: `map`, or something like it that calls on several cores and gives the results in order."""


def load(path: Path, each: Each = map, readers: tuple[Reader, ...] | None = None) -> Evidence:
    """Reads a bundle, any folder of evidence, an archive of one, or a single file. `each` calls the readers, all or
    those given.

    Raises folder.EvidenceMissing, EvidenceEmpty, EvidenceForbidden, or EvidenceUnreadable for a single file of which
    nothing can be used; whatever else is wrong becomes a Problem.
    """
    # Loaded where files are read: a watch judges what it has seen itself, and keeps no archives' formats in memory.
    from rankmuster.evidence import folder

    gathering = _Gathering()
    for taken in each(partial(take, readers=readers), _parts(folder.walk(path))):
        gathering.add(taken)
    evidence = gathering.evidence()
    if not evidence.by_type and evidence.problems and not path.is_dir():
        # In a folder one bad file is a footnote; alone it is the whole answer.
        unread = [problem for problem in evidence.problems if problem.kind is ProblemKind.UNREAD]
        reason = (unread or evidence.problems)[0].message
        raise folder.EvidenceUnreadable(f"{path}: nothing in it can be used: {reason}")
    return evidence


def load_all(paths: Sequence[Path], each: Each = map, readers: tuple[Reader, ...] | None = None) -> Evidence:
    """Several folders, archives and files as one. Of several, sources begin with the path as given.

    Raises as `load` does where nothing can be had of any of them; one of several that cannot be read is a Problem.
    """
    if len(paths) == 1:
        return load(paths[0], each, readers)
    from rankmuster.evidence import folder

    roots: list[Iterable[Part]] = []
    failed: list[folder.EvidenceError] = []
    for path in paths:
        try:
            walk = folder.walk(path)
        except folder.EvidenceError as error:
            failed.append(error)
            roots.append([Problem(ProblemKind.REFUSED, _given(path), str(error))])
            continue
        roots.append(_parts(_below(_given(path), walk, whole=not path.is_dir())))
    if len(failed) == len(roots):
        raise failed[0] if failed else folder.EvidenceMissing("no path was given; name a folder of evidence")
    gathering = _Gathering()
    for taken in each(partial(take, readers=readers), chain.from_iterable(roots)):
        gathering.add(taken)
    return gathering.evidence()


def _given(path: Path) -> str:
    """A path as sources begin with it."""
    from rankmuster.evidence.unpack import printable

    return printable(path.as_posix().lstrip("/")) or "."


def _below(given: str, items: Iterable[Part], *, whole: bool) -> Iterator[Part]:
    """The parts of one path among several, named so that two paths' parts differ. `whole`: it is the file itself."""
    for item in items:
        if isinstance(item, Problem):
            yield replace(item, source=given if whole else f"{given}/{item.source}")
        else:
            yield replace(item, path=given if whole else f"{given}/{item.path}")


def gather(parts: Iterable[Part], readers: tuple[Reader, ...] | None = None) -> Evidence:
    """The same for blobs already in memory (what a collector has just taken)."""
    gathering = _Gathering()
    for part in parts:
        gathering.add(take(part, readers))
    return gathering.evidence()


def _parts(items: Iterable[Part]) -> Iterator[Part]:
    """Files unpacked, and held against the manifest, which comes first where there is one."""
    from rankmuster.evidence.packed_stream import Allowance
    from rankmuster.evidence.unpack import unpack

    allowance = Allowance()
    digests: Mapping[str, str] = {}
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        doubt = _verify(item, digests)
        if doubt is not None:
            yield doubt
        for part in unpack(item, allowance):
            if not digests and isinstance(part, Blob):
                digests = _digests(part)
            yield part


def _digests(blob: Blob) -> Mapping[str, str]:
    """The checksums of a manifest; none for anything else."""
    from rankmuster.evidence import manifest

    if not manifest.READER.recognises(blob):
        return {}
    found = manifest.READER.read(blob).observations
    manifests = [facts for facts in found if isinstance(facts, ManifestFacts)]
    return {path: digest for facts in manifests for path, digest in facts.digests.items()}


def _verify(blob: Blob, digests: Mapping[str, str]) -> Problem | None:
    """Says when a file is not the one that the manifest speaks of; it is read all the same."""
    wanted = digests.get(blob.path)
    if wanted is None:
        return None
    import hashlib  # OpenSSL, 4 MB, which a watch judges without

    if hashlib.sha256(blob.data).hexdigest() == wanted:
        return None
    message = "its sha256 is not the manifest's: it was changed, or not copied whole; it was read all the same"
    return Problem(ProblemKind.CORRUPT, blob.path, message)


class _Gathering:
    """What has been read so far; blobs are dropped as soon as they are read."""

    def __init__(self) -> None:
        self._by_type: dict[type, list[object]] = {}
        self._sources: list[Source] = []
        self._problems: list[Problem] = []
        self._unread = 0

    def add(self, taken: Taken) -> None:
        if taken.source is not None:
            self._sources.append(taken.source)
        for observation in taken.observations:
            self._by_type.setdefault(type(observation), []).append(observation)
        self._problems += taken.problems
        for problem in taken.named:
            self._unread += 1
            if self._unread <= MAX_NAMED_UNREAD:
                self._problems.append(problem)

    def evidence(self) -> Evidence:
        problems = list(self._problems)
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
