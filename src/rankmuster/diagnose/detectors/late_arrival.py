"""Flight Recorder: the rank for which the others wait, by its share of wall time, persistent or in the tail.

Of one collective the rank with the shortest duration came last. Weighed by time, never by count: in launch-bound health
one rank is last in 19 of 20 collectives, by microseconds. Holds for symmetric operations of one group and number only.
Blind without TORCH_NCCL_ENABLE_TIMING, to graph replays, and to slowness that all ranks share.
"""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.legal import symmetric_mask
from rankmuster.diagnose.slow.disturbed import before_stack_dumps, disturbed
from rankmuster.diagnose.slow.lateness import Lateness, elsewhere, measure, rounds_of
from rankmuster.diagnose.slow.matrix import build
from rankmuster.diagnose.slow.pattern import comes_from_elsewhere, judge
from rankmuster.diagnose.spin import picture
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.flight import Flags
from rankmuster.model.job import Group
from rankmuster.model.plane import Plane
from rankmuster.model.slow import Pattern

NAME = "late-arrival"


def measured(context: Context) -> list[tuple[Group, Lateness]]:
    """The latest rank of each group of which durations tell it."""
    symmetric, end = symmetric_mask(context.table), before_stack_dumps(context)
    late = ((group, _measure(context, group, symmetric, end)) for group in context.table.groups)
    return [(group, one) for group, one in late if one is not None]


def detect(context: Context) -> list[Finding]:
    """The latest rank of all groups, if it takes enough time; a note of the share otherwise."""
    found = measured(context)
    if not found:
        return []
    # A rank that waits in another group comes late to this one as a victim of whom it waits for there.
    limits = context.limits
    ordered = sorted(found, key=lambda item: -item[1].share)
    root = next((item for item in ordered if not _comes_from_elsewhere(context, *item)), None)
    group, late = root or ordered[0]
    evidence = _evidence(context, group, late)
    text = (
        f"{group.label}: waiting for rank {late.rank} takes {late.share:.0%} of wall time over {late.rounds} rounds "
        f"({late.dominance:.0%} of all waiting; typically {late.typical_ms:.1f} ms, at worst {late.worst_ms:.1f} ms)"
    )
    if root is None:
        return [Finding(NAME, Plane.FLIGHT, f"{text}; it waits in other groups itself, as all late ranks do", evidence)]
    pattern = judge(late, limits, disturbed=disturbed(context))
    if pattern is Pattern.SEVERAL:
        return [Finding(NAME, Plane.FLIGHT, f"{text}: no single rank is late", evidence)]
    if pattern is Pattern.PERSISTENT:
        return [_accuse(context, Subkind.PERSISTENT, text + ", all the time", group, late, evidence)]
    if pattern is Pattern.TAIL:
        return [_accuse(context, Subkind.TAIL, text + f", in {late.events} single waits", group, late, evidence)]
    return [Finding(NAME, Plane.FLIGHT, f"{text}: within what healthy jobs show", evidence)]


def _comes_from_elsewhere(context: Context, group: Group, late: Lateness) -> bool:
    return comes_from_elsewhere(late.share, elsewhere(context, group, late), context.limits)


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


def _measure(context: Context, group: Group, symmetric: Flags, end: float) -> Lateness | None:
    """Of what was enqueued before `end`, unix seconds."""
    matrix = build(context.table, group, strict=True)
    if matrix is None or len(matrix.numbers) < context.limits.late_rounds:
        return None
    return measure(rounds_of(matrix.only(matrix.created < end), symmetric), context.limits)


def _evidence(context: Context, group: Group, late: Lateness) -> tuple[str, ...]:
    table = context.table
    found = []
    for rank in (late.rank, *[member for member in group.members if member != late.rank][:2]):
        roll = table.rolls[(group.key, rank)]
        position = roll.at(late.example)
        if position is not None:
            found.append(table.reference(rank, int(roll.row[position])))
    return tuple(found)
