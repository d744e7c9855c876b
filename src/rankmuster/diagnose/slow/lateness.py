"""Waiting for one rank of a group, weighed by its share of wall time: what detector and analysis both measure.

Of one collective the rank with the shortest duration came last. Holds for symmetric operations of one group and number
only; weighed by time, never by count: in launch-bound health one rank is last in 19 of 20 collectives, by microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.slow.matrix import GroupMatrix
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.flight import Flags, Floats, Ints
from rankmuster.model.job import Group


@dataclass(frozen=True, slots=True)
class Lateness:
    """Waiting for one rank in one group. `share`: of wall time; `long_share`: in long waits alone. `dominance`: of all
    waiting in the group.

    `steady`: share of time buckets that hold their part of it. `worst`: seconds.
    """

    rank: int
    share: float
    long_share: float
    dominance: float
    steady: float
    events: int
    typical_ms: float
    worst_ms: float
    rounds: int
    window: tuple[float, float]  # unix seconds
    numbers: tuple[int, int]  # sequence numbers of the first round and the last
    example: int  # ... and of the longest wait


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """The symmetric collectives of a matrix. `durations`: shape (ranks, rounds), ms; the rest has shape (rounds,).

    `waited`: seconds that the others waited for the last rank; `last`: its row.
    """

    ranks: tuple[int, ...]
    numbers: Ints
    durations: Floats
    created: Floats
    waited: Floats
    last: Ints

    def since(self, start: int, end: int | None = None) -> Rounds:
        """The rounds from one position to another."""
        part = slice(start, end)
        return Rounds(
            self.ranks,
            self.numbers[part],
            self.durations[:, part],
            self.created[part],
            self.waited[part],
            self.last[part],
        )


def rounds_of(matrix: GroupMatrix, symmetric: Flags) -> Rounds:
    """`symmetric`: per signature of the table."""
    mask = symmetric[matrix.signature]
    waited, last = waits(matrix.values, np.flatnonzero(mask))
    only = matrix.only(mask)
    return Rounds(only.ranks, only.numbers, only.values, only.created, waited, last)


def waits(durations: Floats, rounds: Ints) -> tuple[Floats, Ints]:
    """Per symmetric operation: seconds that the others waited in it for the last rank, and which that was.

    `durations`: shape (ranks, operations), ms; `rounds`: positions of the symmetric ones. A broadcast before the round
    can take up a rank's waiting, so who came last is told by all operations since the round before; that the others
    waited is told by the round itself, for the root of a broadcast leaves it early in health.
    """
    if not len(rounds):
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    own = durations[:, rounds]
    sums = np.zeros((len(durations), durations.shape[1] + 1))
    np.cumsum(durations, axis=1, out=sums[:, 1:])
    starts = np.concatenate([[0], rounds[:-1] + 1]).astype(np.int64)
    since = sums[:, rounds + 1] - sums[:, starts]
    last: Ints = since.argmin(axis=0)
    since.partition(1, axis=0)
    mine = own[last, np.arange(len(rounds))]
    waited: Floats = np.clip(np.minimum(since[1] - since[0], _others(own, mine) - mine), 0.0, None) / 1e3
    return waited, last


def _others(own: Floats, mine: Floats) -> Floats:
    """Median over the ranks without the one whose duration is `mine`, per operation."""
    ordered = np.sort(own, axis=0)
    count = len(ordered) - 1
    place = (ordered < mine).sum(axis=0)
    columns = np.arange(ordered.shape[1])

    def without(position: int) -> Floats:
        found: Floats = ordered[position + (position >= place), columns]
        return found

    if count % 2:
        return without(count // 2)
    middle: Floats = (without(count // 2 - 1) + without(count // 2)) / 2
    return middle


def measure(rounds: Rounds, limits: Thresholds) -> Lateness | None:
    """The rank that most time is waited for; None where too little was seen to judge."""
    numbers, durations, created = rounds.numbers, rounds.durations, rounds.created
    span = float(created.max() - created.min()) if len(created) else 0.0
    if len(numbers) < limits.late_rounds or span < limits.late_span_seconds:
        return None
    per_rank = np.zeros(len(rounds.ranks))
    for index in np.unique(rounds.last).tolist():
        per_rank[index] = rounds.waited[rounds.last == index].sum()
    worst = int(per_rank.argmax())
    total = float(per_rank.sum())
    if total <= 0:
        return None
    mine = np.where(rounds.last == worst, rounds.waited, 0.0)
    ordinary = float(np.median(durations.min(axis=0))) / 1e3
    events = mine[mine > max(limits.late_tail_factor * ordinary, limits.tail_wait_ms / 1e3)]
    buckets = np.histogram(created, bins=limits.late_buckets, weights=mine)[0]
    return Lateness(
        rank=rounds.ranks[worst],
        share=float(per_rank[worst]) / span,
        long_share=float(mine[mine > max(limits.late_tail_factor * ordinary, limits.late_long_ms / 1e3)].sum()) / span,
        dominance=float(per_rank[worst]) / total,
        steady=float((buckets >= limits.late_bucket_share * mine.sum() / limits.late_buckets).mean()),
        events=len(events),
        typical_ms=_typical(mine, events) * 1e3,
        worst_ms=float(mine.max()) * 1e3,
        rounds=len(numbers),
        window=(float(created.min()), float(created.max())),
        numbers=(int(numbers[0]), int(numbers[-1])),
        example=int(numbers[int(mine.argmax())]),
    )


def _typical(waited: Floats, events: Floats) -> float:
    """Of the long waits the median where they are most of the waiting; else the wait at which half of it is reached.

    One slow start does not speak for a thousand short waits behind it, nor a thousand empty ones for fifty long.
    """
    if float(events.sum()) * 2 >= float(waited.sum()) > 0:
        return float(np.median(events))
    ordered = np.sort(waited)[::-1]
    return float(ordered[np.searchsorted(np.cumsum(ordered), float(waited.sum()) / 2)])


def long_wait_ms(rounds: Rounds, limits: Thresholds) -> float:
    """Waits beyond this are the events of a tail."""
    return max(limits.late_tail_factor * float(np.median(rounds.durations.min(axis=0))), limits.tail_wait_ms)


def elsewhere(context: Context, group: Group, late: Lateness) -> float:
    """Share of the window that the late rank spent inside operations of other groups, sends and receives included.

    By its own host's clock, from its first round to its last: another host's may be ahead by more than the window.
    """
    flight = context.table.rows[late.rank]
    columns = flight.dump.columns
    local = context.table.local_groups
    own = {index for index in range(len(columns.groups)) if local.get((late.rank, index)) == group.key}
    roll = context.table.rolls[(group.key, late.rank)]
    start, end = (float(roll.created[position]) for position in np.searchsorted(roll.seq, late.numbers).tolist())
    created = columns.created_ns / 1e9
    inside = (created >= start) & (created <= end) & np.isfinite(columns.duration_ms)
    inside &= ~np.isin(columns.group, sorted(own))
    return float(columns.duration_ms[inside].sum()) / 1e3 / (end - start) if end > start else 0.0
