"""Flight Recorder: the rank for which the others wait, by its share of wall time, persistent or in the tail.

Of one collective the rank with the shortest duration came last. Weighed by time, never by count: in launch-bound health
one rank is last in 19 of 20 collectives, by microseconds. Holds for symmetric operations of one group and number only.
Blind without TORCH_NCCL_ENABLE_TIMING, to graph replays, and to slowness that all ranks share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.legal import symmetric_mask
from rankmuster.diagnose.spin import picture
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.flight import Floats, Ints
from rankmuster.model.job import Group
from rankmuster.model.plane import Plane

NAME = "late-arrival"


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
    example: int  # sequence number of the longest wait


def detect(context: Context) -> list[Finding]:
    """The latest rank of all groups, if it takes enough time; a note of the share otherwise."""
    measured = [
        (group, lateness) for group in context.table.groups if (lateness := _measure(context, group)) is not None
    ]
    if not measured:
        return []
    # A rank that waits in another group comes late to this one as a victim of whom it waits for there.
    roots = [item for item in measured if _elsewhere(context, *item) < context.limits.late_elsewhere * item[1].share]
    group, late = max(roots or measured, key=lambda item: item[1].share)
    limits = context.limits
    evidence = _evidence(context, group, late)
    text = (
        f"{group.label}: waiting for rank {late.rank} takes {late.share:.0%} of wall time over {late.rounds} rounds "
        f"({late.dominance:.0%} of all waiting; typically {late.typical_ms:.1f} ms, at worst {late.worst_ms:.1f} ms)"
    )
    if not roots:
        return [Finding(NAME, Plane.FLIGHT, f"{text}; it waits in other groups itself, as all late ranks do", evidence)]
    if late.dominance < limits.late_dominance:
        return [Finding(NAME, Plane.FLIGHT, f"{text}: no single rank is late", evidence)]
    disturbed = _disturbed(context)
    enough = limits.late_share_disturbed if disturbed else limits.late_share
    # One rank that is last in every launch by microseconds is health; long waits, or most of the time, are not.
    counts = late.long_share >= enough or (
        late.share >= limits.late_most and late.dominance >= limits.late_alone and not disturbed
    )
    if late.steady >= limits.late_steady and counts:
        return [_accuse(context, Subkind.PERSISTENT, text + ", all the time", group, late, evidence)]
    tail = late.events >= limits.late_tail_events and late.steady < limits.late_steady
    if tail and late.long_share >= (limits.late_share_disturbed if disturbed else limits.tail_share):
        return [_accuse(context, Subkind.TAIL, text + f", in {late.events} single waits", group, late, evidence)]
    return [Finding(NAME, Plane.FLIGHT, f"{text}: within what healthy jobs show", evidence)]


def _accuse(
    context: Context, subkind: Subkind, text: str, group: Group, late: Lateness, evidence: tuple[str, ...]
) -> Finding:
    idle = _least_busy(context)
    agreed = idle == late.rank
    if agreed:
        text += f"; its GPU is the least busy one, its peers' spin ({context.tracks[late.rank].source})"
        evidence += (context.tracks[late.rank].source,)
    return Finding(
        NAME,
        Plane.FLIGHT,
        text,
        evidence,
        accuse(
            subkind,
            Confidence.CONFIRMED if agreed else Confidence.LIKELY,
            culprits=(late.rank,),
            victims=tuple(rank for rank in group.members if rank != late.rank),
            why={late.rank: f"arrives last in {group.label}; waiting for it takes {late.share:.0%} of wall time"},
            scope=Scope.RANK,
            stop=False,
        ),
    )


def _least_busy(context: Context) -> int | None:
    """The rank whose GPU is far less busy than all others, as one is that arrives late and never waits."""
    busy = _while_serving(context)
    if len(busy) < 2:
        return None
    rank = min(busy, key=lambda number: busy[number])
    others = [percent for number, percent in busy.items() if number != rank]
    return rank if busy[rank] + context.limits.late_idler_percent < min(others) else None


def _while_serving(context: Context) -> dict[int, float]:
    """Median SM utilisation in percent per rank, over the time the dumps speak of."""
    spans = [
        (float(flight.created.min()), float(flight.created.max()))
        for flight in context.table.rows.values()
        if len(flight.created)
    ]
    if not spans:
        return {rank: state.sm_percent for rank, state in picture(context).states.items()}
    low, high = max(start for start, _ in spans), min(end for _, end in spans)
    found = {}
    for rank, track in context.tracks.items():
        inside = track.sm_percent[(track.time >= low) & (track.time <= high)]
        inside = inside[np.isfinite(inside)]
        if len(inside):
            found[rank] = float(np.median(inside))
    return found


def _measure(context: Context, group: Group) -> Lateness | None:
    table, limits = context.table, context.limits
    ranks = [rank for rank in group.members if (group.key, rank) in table.rolls]
    if len(ranks) < 2 or len(ranks) != len(group.members):
        return None
    rolls = [table.rolls[(group.key, rank)] for rank in ranks]
    symmetric = symmetric_mask(table)
    usable = [roll.seq[roll.finished & np.isfinite(roll.duration_ms)] for roll in rolls]
    numbers: Ints = usable[0]
    for other in usable[1:]:
        numbers = np.intersect1d(numbers, other, assume_unique=True)
    if len(numbers) < limits.late_rounds:
        return None
    positions = [np.searchsorted(roll.seq, numbers) for roll in rolls]
    durations = np.stack([roll.duration_ms[place] for roll, place in zip(rolls, positions, strict=True)])
    created = np.stack([roll.created[place] for roll, place in zip(rolls, positions, strict=True)]).max(axis=0)
    rounds = symmetric[rolls[0].signature[positions[0]]]
    kept = created < _before_stack_dumps(context)
    durations, created, numbers, rounds = durations[:, kept], created[kept], numbers[kept], rounds[kept]
    waited, last = _waits(durations, np.flatnonzero(rounds))
    durations, created, numbers = durations[:, rounds], created[rounds], numbers[rounds]
    span = float(created.max() - created.min()) if len(created) else 0.0
    if len(numbers) < limits.late_rounds or span < limits.late_span_seconds:
        return None
    per_rank = np.array([waited[last == index].sum() for index in range(len(ranks))])
    worst = int(per_rank.argmax())
    total = float(per_rank.sum())
    if total <= 0:
        return None
    mine = np.where(last == worst, waited, 0.0)
    ordinary = float(np.median(durations.min(axis=0))) / 1e3
    events = mine[mine > max(limits.late_tail_factor * ordinary, limits.tail_wait_ms / 1e3)]
    buckets = np.histogram(created, bins=limits.late_buckets, weights=mine)[0]
    return Lateness(
        rank=ranks[worst],
        share=float(per_rank[worst]) / span,
        long_share=float(mine[mine > max(limits.late_tail_factor * ordinary, limits.late_long_ms / 1e3)].sum()) / span,
        dominance=float(per_rank[worst]) / total,
        steady=float((buckets >= limits.late_bucket_share * mine.sum() / limits.late_buckets).mean()),
        events=len(events),
        typical_ms=float(np.median(events)) * 1e3 if len(events) else float(np.median(mine)) * 1e3,
        worst_ms=float(mine.max()) * 1e3,
        rounds=len(numbers),
        window=(float(created.min()), float(created.max())),
        example=int(numbers[int(mine.argmax())]),
    )


def _elsewhere(context: Context, group: Group, late: Lateness) -> float:
    """Share of the window that the late rank spent inside operations of other groups, sends and receives included."""
    flight = context.table.rows[late.rank]
    columns = flight.dump.columns
    own = {index for (rank, index), key in context.table.local_groups.items() if rank == late.rank and key == group.key}
    created = columns.created_ns / 1e9
    inside = (created >= late.window[0]) & (created <= late.window[1]) & np.isfinite(columns.duration_ms)
    inside &= ~np.isin(columns.group, sorted(own))
    return float(columns.duration_ms[inside].sum()) / 1e3 / (late.window[1] - late.window[0])


def _waits(durations: Floats, rounds: Ints) -> tuple[Floats, Ints]:
    """Per symmetric operation: seconds that the others waited in it for the last rank, and which that was.

    `durations`: shape (ranks, operations), ms; `rounds`: positions of the symmetric ones. A broadcast before the round
    can take up a rank's waiting, so who came last is told by all operations since the round before; that the others
    waited is told by the round itself, for the root of a broadcast leaves it early in health.
    """
    sums = np.concatenate([np.zeros((len(durations), 1)), np.cumsum(durations, axis=1)], axis=1)
    starts = np.concatenate([[0], rounds[:-1] + 1]).astype(np.int64) if len(rounds) else rounds
    since = sums[:, rounds + 1] - sums[:, starts]
    ordered = np.sort(since, axis=0)
    last: Ints = since.argmin(axis=0) if len(rounds) else np.zeros(0, dtype=np.int64)
    own = durations[:, rounds]
    mine = own[last, np.arange(len(rounds))]
    others = np.where(np.arange(len(durations))[:, None] == last[None, :], np.nan, own)
    typical = np.nanmedian(others, axis=0) if len(rounds) else np.zeros(0)
    waited: Floats = np.clip(np.minimum(ordered[1] - ordered[0], typical - mine), 0.0, None) / 1e3
    return waited, last


def _disturbed(context: Context) -> bool:
    """Dumps with stacks of which no log says when they were asked for: their window may be slowed by themselves."""
    stacked = any(len(dump.columns.stacks) for dump in context.job.dumps.values())
    return stacked and _before_stack_dumps(context) == float("inf")


def _before_stack_dumps(context: Context) -> float:
    """A dump with stacks slows the job for seconds: what was enqueued after the first one is not looked at."""
    return min(context.stack_dumps(), default=float("inf"))


def _evidence(context: Context, group: Group, late: Lateness) -> tuple[str, ...]:
    table = context.table
    found = []
    for rank in (late.rank, *[member for member in group.members if member != late.rank][:2]):
        roll = table.rolls[(group.key, rank)]
        position = roll.at(late.example)
        if position is not None:
            found.append(table.reference(rank, int(roll.row[position])))
    return tuple(found)
