"""What ranks that have ended have said: files beside those of the living, under names of the same pattern.

`rank0.log` of a living rank 0 tells that `rank2.log` beside it is rank 2's, and `attempt_0/1/stderr.log` tells the same
of `attempt_0/3/stderr.log`. Where no rank lives, only names that say a rank themselves are taken. Whose a file is, is
sorted out later.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.left_behind import Candidate
from rankmuster.collect.target import ProcessOfInstance
from rankmuster.evidence import names

MAX_CANDIDATES = 2048
"""Files of one instance on one node that are thought of."""

_NUMBER = re.compile(r"\d{1,10}")
_SAYS_RANK = re.compile(r"(?:rank|worker|proc|process|local|tp|gpu|task)[_\-.=]?$", re.IGNORECASE)
_LOG = re.compile(r"[\w.\-=+@]{1,200}\.(?:log|err|out|txt|stderr|stdout)")
_OF_ALL = re.compile(r"(?:launcher|engine|server|api_server|torchrun|mpirun|srun|stdout|stderr)\.(?:log|err|out|txt)")
_EVERYBODYS = {"", "/tmp", "/var/tmp", "/var/log", "/dev/shm", "/root", "/home"}  # noqa: S108 - compared, never used
"""Folders where a name that only looks like a rank's log may be anybody's."""


class Counts(IntEnum):
    """What the number in a name is."""

    RANK = 0
    LOCAL_RANK = 1
    PID = 2


@dataclass(frozen=True, slots=True)
class Series:
    """Paths that differ in one number: `folder`/`before`NUMBER`after`, and `rest` below that where it is a folder."""

    folder: str
    before: str
    after: str
    rest: str
    counts: Counts

    @property
    def says_so(self) -> bool:
        """Whether the name says that its number is a rank; a bare number for a folder does."""
        bare = not self.before and not self.after and bool(self.rest)
        return bare or self.counts is Counts.PID or _SAYS_RANK.search(self.before) is not None


def series(process: ProcessOfInstance, path: str) -> list[Series]:
    """In which series the path of a process's own log may stand, by the numbers that the process has."""
    parts = path.split("/")
    found: list[Series] = []
    for depth in (1, 2):
        if len(parts) <= depth:
            break
        part, folder = parts[-depth], "/".join(parts[:-depth])
        rest = "/".join(parts[len(parts) - depth + 1 :])
        for match in _NUMBER.finditer(part):
            number = int(match[0])
            before, after = part[: match.start()], part[match.end() :]
            numbers = ((process.rank, Counts.RANK), (process.local_rank, Counts.LOCAL_RANK))
            found.extend(Series(folder, before, after, rest, counts) for value, counts in numbers if value == number)
            if number == process.inner_pid and process.rank is not None:
                found.append(Series(folder, before, after, rest, Counts.PID))
    return found


def chosen(written: Sequence[tuple[ProcessOfInstance, str]]) -> dict[Series, ProcessOfInstance]:
    """The likeliest series of each path, with a process that sees its folder: that in which most processes stand."""
    by_series: dict[Series, set[int]] = defaultdict(set)
    possible: list[tuple[ProcessOfInstance, list[Series]]] = []
    for process, path in written:
        own = series(process, path)
        possible.append((process, own))
        for one in own:
            by_series[one].add(process.pid)
    found: dict[Series, ProcessOfInstance] = {}
    for process, own in possible:
        if own:
            best = max(own, key=lambda one: (len(by_series[one]), one.says_so, -one.counts, len(one.before)))
            found.setdefault(best, process)
    return found


def beside(written: Sequence[tuple[ProcessOfInstance, str]], offset: int | None, world: int | None) -> list[Candidate]:
    """Logs of the series in which the living ranks' logs stand. `offset`: of a global rank over its local one."""
    found: list[Candidate] = []
    own = {(process.root, path) for process, path in written}
    for one, process in chosen(written).items():
        shape = re.compile(re.escape(one.before) + r"(\d{1,10})" + re.escape(one.after))
        for name in _listed(process.root, one.folder):
            match = shape.fullmatch(name)
            path = f"{one.folder}/{name}" + (f"/{one.rest}" if one.rest else "")
            if match is None or (process.root, path) in own:
                continue
            number = int(match[1])
            pid = number if one.counts is Counts.PID else None
            rank = {Counts.RANK: number, Counts.LOCAL_RANK: None if offset is None else number + offset}.get(one.counts)
            if rank is None or world is None or rank < world:
                found.append(Candidate(process, path, pid, rank))
    return found[:MAX_CANDIDATES]


def by_name(written: Iterable[tuple[ProcessOfInstance, str]], world: int | None, *, ranks: bool) -> Iterator[Candidate]:
    """Logs whose names say what they are, in the folders where the instance's processes write: its launcher's and
    server's, and with `ranks` those of ranks."""
    folders = {(process.root, path.rpartition("/")[0]): process for process, path in written}
    for (root, folder), process in list(folders.items())[:64]:
        if folder in _EVERYBODYS:
            continue
        for name in _listed(root, folder):
            rank = names.rank_of(name) if ranks and _LOG.fullmatch(name) else None
            if _OF_ALL.fullmatch(name) or (rank is not None and (world is None or rank < world)):
                yield Candidate(process, f"{folder}/{name}", None, rank)


def offset_of(processes: Iterable[ProcessOfInstance]) -> int | None:
    """By how much global ranks are above local ones here; None where that is not one number."""
    found = {one.rank - one.local_rank for one in processes if one.rank is not None and one.local_rank is not None}
    return found.pop() if len(found) == 1 else None


def _listed(root: Path, folder: str) -> list[str]:
    try:
        return files_below.names_in(root, folder or "/")
    except OSError:
        return []
