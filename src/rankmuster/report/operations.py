"""The Flight Recorder's columns laid onto the job's groups and clock: what each rank did in each group, and until when.

The times are the host's: `created` is when the rank enqueued the operation, `ended` when its watchdog found it complete
(it looks every few milliseconds to a second). Neither is kernel time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.flight import FlightDump, FlightGroup, State
from rankmuster.model.job import Group, Job, Rank
from rankmuster.model.verdict import Verdict

NO_GROUP = -1
"""In `Operations.group`: the row's group is not among the job's."""


class Mark(Enum):
    """What is known of one rank at one sequence number of one group."""

    FINISHED = "finished"
    FAILED = "failed"  # retired without completed where completion events exist
    STARTED = "started, not finished"
    ENTERED = "entered, not finished"  # enqueued; not seen to start (or timing was off)
    MISSING = "missing"  # the verdict says that this rank did not enter
    NOT_ENTERED = "not entered at the look"
    OVERWRITTEN = "unknown: before the ring buffer"
    NO_DUMP = "unknown: no dump"


ROW_MARKS = (Mark.FINISHED, Mark.FAILED, Mark.STARTED, Mark.ENTERED)
"""Marks that rows can have; `Operations.mark` holds indexes into this."""

OUTSTANDING = (Mark.STARTED, Mark.ENTERED)


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """The rows of one rank's dump, in its order; arrays of shape (entries,), times in unix seconds (NaN unknown).

    `group`: key of the job's group, or `NO_GROUP`. `seq`: collective sequence, or the p2p sequence where `p2p`.
    `ended`: NaN for an operation that had not ended at `look`.
    """

    rank: int
    source: str
    look: float | None
    group: NDArray[np.int64]
    seq: NDArray[np.int64]
    p2p: NDArray[np.bool_]
    created: NDArray[np.float64]
    ended: NDArray[np.float64]
    mark: NDArray[np.int64]
    op: NDArray[np.int64]
    ops: tuple[str, ...]

    def op_name(self, row: int) -> str:
        """The operation's name without the backend's prefix."""
        index = int(self.op[row])
        return self.ops[index] if 0 <= index < len(self.ops) else "unknown operation"

    def rows_of(self, group: int, p2p: bool = False) -> NDArray[np.int64]:
        """Indexes of the rows of one group, collectives or sends and receives."""
        return np.flatnonzero((self.group == group) & (self.p2p == p2p))

    def find(self, group: int, seq: int, p2p: bool = False) -> int | None:
        """The newest row with that number, None where the dump holds none."""
        rows = np.flatnonzero((self.group == group) & (self.seq == seq) & (self.p2p == p2p))
        return int(rows[-1]) if len(rows) else None


def bare_op(name: str) -> str:
    """`nccl:all_reduce` -> `all_reduce`."""
    return name.split(":", 1)[1] if ":" in name else name


def job_group(job: Job, rank: int, local: FlightGroup) -> int:
    """The key of the job's group that a dump's group is: by members, then by name (names repeat)."""
    mine = [group for group in job.groups if rank in group.members]
    named = [group for group in mine if group.name == local.name]
    alike = [group for group in mine if local.members is not None and group.members == tuple(local.members)]
    tests = (
        [group for group in alike if group.name == local.name],
        [group for group in alike if group.desc == local.desc],
        alike,
        [group for group in named if group.desc == local.desc],
        named,
    )
    for found in tests:
        if found:
            return found[0].key
    return NO_GROUP


def divergence_group(verdict: Verdict, job: Job) -> Group | None:
    """The job's group that the verdict's first divergence speaks of, None where it speaks of none or it is unknown."""
    first = verdict.first_divergence
    if first is None or first.group is None:
        return None
    found = [group for group in job.groups if first.group in (group.label, group.name, group.desc)]
    exact = [group for group in found if first.members and group.members == first.members]
    missing = [group for group in found if set(first.missing) <= set(group.members)]
    for candidates in (exact, missing, found):
        if candidates:
            return candidates[0]
    return None


def _offset(job: Job, rank: Rank, dump: FlightDump) -> float:
    """Seconds to add to the dump's clock to reach the reference clock; 0 where no offset is known."""
    for host in (rank.host, *rank.aliases, dump.host):
        if host is not None and host in job.clock_offsets:
            return job.clock_offsets[host][0]
    return 0.0


def _seconds(nanoseconds: NDArray[np.int64], offset: float) -> NDArray[np.float64]:
    return np.where(nanoseconds > 0, nanoseconds / 1e9 + offset, np.nan)


def _of_dump(job: Job, rank: Rank, dump: FlightDump) -> Operations:
    columns = dump.columns
    facts = job.dump_facts.get(rank.rank)
    has_events = facts.has_events if facts is not None else bool(np.any(columns.completed_ns > 0))
    keys = np.array([job_group(job, rank.rank, local) for local in columns.groups] or [NO_GROUP], dtype=np.int64)
    known = (columns.group >= 0) & (columns.group < len(columns.groups))
    group = np.where(known, keys[np.clip(columns.group, 0, len(keys) - 1)], NO_GROUP)

    offset = _offset(job, rank, dump)
    created = _seconds(columns.created_ns, offset)
    completed = _seconds(columns.completed_ns, offset)
    finished = (columns.state == int(State.COMPLETED)) | (columns.completed_ns > 0)
    if not has_events:
        finished |= columns.retired  # the only sign there is on such a backend
    for key in set(keys.tolist()):
        view = job.views.get((key, rank.rank))
        if view is not None:
            finished |= (group == key) & ~columns.is_p2p & (columns.seq >= 0) & (columns.seq <= view.finished)
    failed = ~finished & columns.retired
    started = ~finished & ~failed & ((columns.state == int(State.STARTED)) | (columns.started_ns > 0))
    mark = np.select([finished, failed, started], [0, 1, 2], default=3)
    # an ended row without a time of its end has no length, rather than a made-up one
    ended = np.where(finished | failed, np.fmax(np.where(np.isnan(completed), created, completed), created), np.nan)
    seq = np.where(columns.is_p2p & (columns.p2p_seq >= 0), columns.p2p_seq, columns.seq)

    look = facts.look if facts is not None else None
    if look is None and len(columns):
        stamps = np.concatenate([created, completed])
        stamps = stamps[np.isfinite(stamps)]
        newest = float(stamps.max()) if len(stamps) else None
        ends = [time for time in (job.window[1], newest) if time is not None]
        look = max(ends) if ends else None
    return Operations(
        rank=rank.rank,
        source=dump.source,
        look=look,
        group=group,
        seq=seq,
        p2p=columns.is_p2p,
        created=created,
        ended=ended,
        mark=mark,
        op=columns.op,
        ops=tuple(bare_op(name) for name in columns.ops),
    )


def operations(job: Job) -> Mapping[int, Operations]:
    """Every rank's dump laid onto the job, by global rank; ranks without a dump are absent."""
    known = {rank.rank: rank for rank in job.ranks}
    return {rank: _of_dump(job, known.get(rank, Rank(rank)), dump) for rank, dump in sorted(job.dumps.items())}
