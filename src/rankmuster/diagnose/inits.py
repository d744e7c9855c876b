"""NCCL inits per communicator over all logs: who started, who completed, and whether the logs can be trusted on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.memo import once
from rankmuster.model.nccllog import InitPhase, NcclCall, NcclInit, NcclLogFile

MOST_RANKS = 65536
"""Ranks listed of one communicator; a damaged line may claim any number."""

Writer = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class CommInit:
    """One communicator's init. Ranks are communicator-local; `globals` maps them to global ranks where known.

    `first`, `last`: unix seconds of its first and last START. `references`: START lines of those that wait.
    """

    comm_id: str
    nranks: int
    started: frozenset[int]
    completed: frozenset[int]
    ended: bool
    globals: Mapping[int, int]
    first: float | None
    last: float | None
    references: tuple[str, ...]
    unbroken: bool
    waiting: frozenset[Writer] = frozenset()  # processes that started it and did not complete it

    @property
    def absent(self) -> tuple[int, ...]:
        """Communicator-local ranks that never started, in logs that would show it."""
        return tuple(rank for rank in range(min(self.nranks, MOST_RANKS)) if rank not in self.started)

    @property
    def pending(self) -> bool:
        """Somebody started and not everybody completed."""
        return bool(self.started - self.completed) and not self.ended


def any_completed(context: Context) -> bool:
    """Whether a communicator is up: everybody who started its init completed it."""
    return any(comm.completed and not comm.started - comm.completed for comm in communicators(context))


@once
def communicators(context: Context) -> list[CommInit]:
    """All communicators with a commId, in order of their first START."""
    lines = context.evidence.of(NcclInit)
    grouped: dict[tuple[str, int], list[NcclInit]] = defaultdict(list)
    for line in lines:
        if line.comm_id is not None:
            grouped[(line.comm_id, line.nranks)].append(line)
    broken = broken_writers(context)
    users = {(call.origin.host, call.origin.pid, call.comm) for call in context.evidence.of(NcclCall)}
    ends = {
        (line.origin.host, line.origin.pid, line.comm)
        for line in lines
        if line.phase in (InitPhase.ABORT, InitPhase.DESTROY)
    }
    found = []
    for (comm_id, nranks), group in grouped.items():
        starts = [line for line in group if line.phase is InitPhase.START]
        done = {line.rank for line in group if line.phase is InitPhase.COMPLETE}
        # Whoever calls collectives on it, or takes it down, is past its init.
        done |= {line.rank for line in starts if (line.origin.host, line.origin.pid, line.comm) in users}
        done |= _running(context, comm_id)
        writers = {(line.origin.host, line.origin.pid) for line in starts}
        times = [time for time in (context.time(line.origin.stamp) for line in starts) if time is not None]
        found.append(
            CommInit(
                comm_id,
                nranks,
                frozenset(line.rank for line in starts) | frozenset(done),
                frozenset(done),
                any((line.origin.host, line.origin.pid, line.comm) in ends for line in starts),
                _globals(context, group, nranks),
                min(times, default=None),
                max(times, default=None),
                tuple(line.origin.reference for line in starts if line.rank not in done)[:8],
                not writers & broken,
                frozenset((line.origin.host, line.origin.pid) for line in starts if line.rank not in done),
            )
        )
    return sorted(found, key=lambda comm: (comm.first is None, comm.first or 0.0, comm.comm_id))


def stuck(context: Context, comms: list[CommInit]) -> list[CommInit]:
    """Those of `comms` that are pending in unbroken logs and had time to complete.

    Time is measured to the last look; unknown, the logs were collected for a reason.
    """
    end = context.window[1]
    return [
        comm
        for comm in comms
        if comm.pending
        and comm.unbroken
        and (comm.last is None or end is None or end - comm.last >= context.limits.init_seconds)
    ]


def _running(context: Context, comm_id: str) -> set[int]:
    """Ranks (communicator-local) that RAS has seen past the init of this communicator: its hash is the commId."""
    try:
        wanted = int(comm_id, 16)
    except ValueError:
        return set()
    return {
        rank.rank
        for poll in context.polls
        for comm in poll.communicators
        if comm.hash == wanted
        for rank in comm.ranks
        if rank.status in ("RUNNING", "FINALIZE", "ABORT")
    }


def broken_writers(context: Context) -> set[Writer]:
    broken: set[Writer] = set()
    for log in context.evidence.of(NcclLogFile):
        if log.hole or log.cut:
            broken |= set(log.writers)
    return broken


def _globals(context: Context, lines: list[NcclInit], nranks: int) -> dict[int, int]:
    table = {}
    if nranks == context.roster.world_size:
        table = {rank: rank for rank in range(min(nranks, MOST_RANKS))}
    for line in lines:
        found = context.roster.of_process(line.origin.host, line.origin.pid)
        if found is not None:
            table[line.rank] = found
    return table
