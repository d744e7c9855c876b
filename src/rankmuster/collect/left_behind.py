"""What ranks of this node that have ended may have left, and which of it is certainly not this instance's.

A file of an ended process has nobody who could be asked whose it was. So it must have been written since the instance
began, belong to its user, and be in no hands but its own: not open for writing in a process of somebody else's, and not
named after one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.bounded import each
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.files_below import resolved, status
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.process_now import open_files, read_state, state_of
from rankmuster.collect.target import ProcessOfInstance, Target

CLOCK_SLACK = 2.0
"""Seconds by which a start time read off /proc may be late against a file's time: ticks, and the boot time's second."""

PATIENCE = 0.5
"""Seconds for the look at one process's or one file's; it takes microseconds, or it does not return."""
SHARE = 0.25
"""Of the time that is left, the part for looking who else holds the files; a tenth of a second a thousand processes."""

_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")

Identity = tuple[int, int]
"""(device, inode)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file below `like`'s root that an ended process may have written. `pid`: as its name says, in `like`'s numbers.

    `rank`: as its name says.
    """

    like: ProcessOfInstance
    path: str
    pid: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Sorted:
    """`ours`: those that may be taken. Of the others how many are of before (`old`) or `foreign`; `unsure`: those left
    since the node's processes could not all be looked at."""

    ours: tuple[Candidate, ...] = ()
    old: int = 0
    foreign: int = 0
    unsure: int = 0


def began(target: Target) -> float:
    """Unix seconds: what was last written before is of an earlier run."""
    times = [process.started_at for process in target.processes]
    if target.ended is not None:
        times.append(target.ended.began)
    return min(times, default=0.0) - CLOCK_SLACK


def somebody_missing(proc: Path, target: Target) -> bool:
    """Whether a rank of this node may have ended: not where as many live as were started here."""
    states = (state_of(proc, process) for process in target.workers)
    living = sum(state is not None and not state.ended for state in states)
    said = target.setting(*_LOCAL_SIZES) or ""
    expected = int(said) if said.isascii() and said.isdigit() and len(said) < 7 else target.world_size
    return expected is None or living < expected


def left_over(left: Sorted) -> str:
    """What was not taken and why, as the end of a note; empty where there is nothing of it."""
    parts = []
    if left.old:
        parts.append(f"{left.old} of an earlier run")
    if left.foreign:
        parts.append(f"{left.foreign} of others")
    if left.unsure:
        parts.append(f"{left.unsure} of which there was no time to see whose they are")
    return f" (left alone: {', '.join(parts)})" if parts else ""


def sort_out(candidates: Iterable[Candidate], proc: Path, target: Target, deadline: Deadline) -> Sorted:
    """Which of them are the instance's own. Never raises for a file or process that goes meanwhile."""
    since = began(target)
    done = each(list(candidates), _status, patience=PATIENCE, total=deadline.remaining() * SHARE)
    found: list[tuple[Candidate, Identity, str]] = []
    old = foreign = 0
    numbers = _Numbers(proc, target)
    for candidate, seen in done.results:
        if seen is None or not stat.S_ISREG(seen[0].st_mode):
            continue
        about = seen[0]
        if about.st_mtime < since:
            old += 1
        elif about.st_uid != candidate.like.uid or numbers.of_somebody_else(candidate, about.st_mtime):
            foreign += 1
        else:
            found.append((candidate, (about.st_dev, about.st_ino), seen[1]))
    unseen = len(done.skipped) + len(done.stuck)
    if not found:
        return Sorted((), old, foreign, unseen)
    held = _held_by_others(proc, target, {identity: name for _, identity, name in found}, deadline)
    if held is None:
        return Sorted((), old, foreign, len(found) + unseen)
    ours = tuple(candidate for candidate, identity, _ in found if identity not in held)
    return Sorted(ours, old, foreign + len(found) - len(ours), unseen)


def _status(candidate: Candidate) -> tuple[os.stat_result, str] | None:
    """What it is, and its name without links, which is how /proc shows it to whoever has it open."""
    try:
        root = candidate.like.root
        return status(root, candidate.path), resolved(root, candidate.path).rsplit("/", 1)[-1]
    except OSError:
        return None


def _held_by_others(
    proc: Path, target: Target, files: Mapping[Identity, str], deadline: Deadline
) -> frozenset[Identity] | None:
    """Those that a process outside the instance has open for writing; None when not all could be looked at in time.

    Who started the instance, and this program, are not counted: launchers keep their ranks' logs open.
    """
    names = set(files.values())

    def look(pid: int) -> set[Identity]:
        held: set[Identity] = set()
        for number, link in (open_files(proc, pid) or {}).items():
            # Asking a descriptor of a dead file server what it is would hang: only those of the right name are asked.
            if link.removesuffix(" (deleted)").rsplit("/", 1)[-1] in names:
                place = f"{proc}/{pid}/fd/{number}"
                try:
                    if os.lstat(place).st_mode & stat.S_IWUSR:  # a shipper of logs reads them
                        about = os.stat(place)
                        held.add((about.st_dev, about.st_ino))
                except OSError:
                    continue
        return held

    if deadline.passed:
        return None
    own = _family(proc, target)
    others = [pid for pid in Proc(proc).pids() if pid not in own]
    done = each(others, look, patience=PATIENCE, total=deadline.remaining() * SHARE)
    if done.skipped:
        return None
    return frozenset(identity for _, held in done.results for identity in held)


def _family(proc: Path, target: Target) -> set[int]:
    own = {process.pid for process in target.processes}
    own |= {me for me in (Proc(proc).own_pid(),) if me is not None}
    own |= {target.ended.supervisor} if target.ended is not None else set()
    waiting = [process.parent for process in target.processes if process.parent]
    while waiting:
        pid = waiting.pop()
        if pid in own or pid <= 1:
            continue
        own.add(pid)
        state = read_state(proc, pid)
        if state is not None:
            waiting.append(state.parent)
    return own


class _Numbers:
    """Which pids of the instance's namespaces are living processes of somebody else."""

    def __init__(self, proc: Path, target: Target) -> None:
        self._proc, self._target = Proc(proc), target
        self._boot = self._proc.boot_time()
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._maps: dict[str | None, Mapping[int, int]] = {}

    def of_somebody_else(self, candidate: Candidate, written: float) -> bool:
        """Whether the process after which it is named lives, is not of the instance, and may have written it."""
        if candidate.pid is None:
            return False
        pid = self._ours(candidate)
        if pid is None or any(process.pid == pid for process in self._target.processes):
            return False
        state = read_state(self._proc.root, pid)
        # A number that was given away after the file's last writing is a newcomer's.
        return state is not None and self._boot + state.start_ticks / self._ticks <= written + CLOCK_SLACK

    def _ours(self, candidate: Candidate) -> int | None:
        like, inner = candidate.like, candidate.pid
        assert inner is not None
        if like.pid == like.inner_pid:
            return inner
        namespace = self._namespace(like.pid)
        if namespace not in self._maps:
            pids = self._proc.pids() if namespace is not None else []
            inside = (pid for pid in pids if self._namespace(pid) == namespace)
            self._maps[namespace] = {numbers[-1]: pid for pid in inside if (numbers := self._numbers(pid))}
        return self._maps[namespace].get(inner)

    def _namespace(self, pid: int) -> str | None:
        try:
            return self._proc.link(pid, "ns/pid")
        except (NotAllowed, OSError):
            return None

    def _numbers(self, pid: int) -> Sequence[int]:
        try:
            found = self._proc.status(pid)
        except (NotAllowed, OSError):
            return ()
        return found.pids if found is not None else ()
