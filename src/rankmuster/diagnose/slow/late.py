"""Per group the rank that is waited for: persistent or in the tail, since when, and whether it is a victim itself.

The measure and its thresholds are those of the detector (`lateness`, `pattern`). Beyond it: where the waiting for the
rank changed within the window, the part in which it is late is judged by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.slow.change import Split, splits, to_change
from rankmuster.diagnose.slow.lateness import Lateness, Rounds, elsewhere, long_wait_ms, measure
from rankmuster.diagnose.slow.limits import SlowLimits
from rankmuster.diagnose.slow.matrix import GroupMatrix
from rankmuster.diagnose.slow.pattern import comes_from_elsewhere, judge
from rankmuster.diagnose.slow.together import late_together
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.flight import Floats
from rankmuster.model.slow import LateRank, Pattern

SLOW = (Pattern.PERSISTENT, Pattern.TAIL)


def of_group(
    context: Context, matrix: GroupMatrix, rounds: Rounds, limits: SlowLimits, *, disturbed: bool
) -> LateRank | None:
    """None where too little was seen to judge, or nobody waited."""
    whole = measure(rounds, context.limits)
    if whole is None:
        return None
    chosen, since, until = whole, None, None
    pattern = judge(whole, context.limits, disturbed=disturbed)
    row = rounds.ranks.index(whole.rank)
    mine = np.where(rounds.last == row, rounds.waited, 0.0) * 1e3
    # A part of the least length, in which just enough is waited to be slow, would leave this much of the whole.
    least = limits.change_edge * min(context.limits.late_share, context.limits.tail_share)
    changes = splits(mine, limits, means=True) if whole.share >= least else []
    if changes:
        part = _worst_part(rounds, mine, changes)
        late = measure(rounds.since(*part), context.limits)
        judged = judge(late, context.limits, disturbed=disturbed) if late is not None else Pattern.TOO_LITTLE
        if late is not None and late.rank == whole.rank and judged in SLOW:
            chosen, pattern = late, judged
            begins = next((one for one in changes if one.position == part[0] and one.after > one.before), None)
            ends = next((one for one in changes if one.position == part[1] and one.after < one.before), None)
            since = to_change(begins, mine, rounds.created, rounds.numbers) if begins is not None else None
            until = to_change(ends, mine, rounds.created, rounds.numbers) if ends is not None else None
    first, last = _long_waits(rounds, mine, chosen, context.limits)
    away = None
    if pattern is not Pattern.SEVERAL:
        away = elsewhere(context, matrix.group, chosen)
        if comes_from_elsewhere(chosen.share, away, context.limits):
            pattern = Pattern.VICTIM
    together: tuple[int, ...] = ()
    together_share = 0.0
    if pattern in (Pattern.SEVERAL, Pattern.ORDINARY):
        together, together_share = late_together(rounds, context.limits, disturbed=disturbed)
        held = (elsewhere(context, matrix.group, replace(whole, rank=rank)) for rank in together)
        if any(comes_from_elsewhere(together_share, away, context.limits) for away in held):
            together, together_share = (), 0.0
    return LateRank(
        group=matrix.group.key,
        label=matrix.group.label,
        members=matrix.group.members,
        rank=chosen.rank,
        pattern=pattern,
        share=chosen.share,
        dominance=chosen.dominance,
        typical_ms=chosen.typical_ms,
        worst_ms=chosen.worst_ms,
        events=chosen.events,
        rounds=chosen.rounds,
        window=chosen.window,
        example=chosen.example,
        elsewhere=away,
        first=first,
        last=last,
        from_start=_from_start(rounds, mine, limits),
        since=since,
        until=until,
        absent=(*matrix.absent, *matrix.apart),
        together=together,
        together_share=together_share,
    )


def _from_start(rounds: Rounds, mine: Floats, limits: SlowLimits) -> bool:
    """Whether it was waited for at the window's start at least half as much as over all of it."""
    start, end = float(rounds.created.min()), float(rounds.created.max())
    first = rounds.created <= start + limits.first_part * (end - start)
    return float(mine[first].sum()) >= limits.first_part / 2 * float(mine.sum())


def _long_waits(rounds: Rounds, mine: Floats, late: Lateness, limits: Thresholds) -> tuple[float, float]:
    """Unix seconds of the first and the last wait for the rank that counts as long; the window's ends without one.

    `mine`: waiting for it, ms.
    """
    long = np.flatnonzero(mine > long_wait_ms(rounds, limits))
    return (float(rounds.created[long[0]]), float(rounds.created[long[-1]])) if len(long) else late.window


def _worst_part(rounds: Rounds, mine: Floats, changes: Sequence[Split]) -> tuple[int, int]:
    """The part between two changes in which the rank is waited for most, per second. `mine`: waiting for it."""
    edges = [0, *(one.position for one in changes), len(rounds.numbers)]

    def share(part: tuple[int, int]) -> float:
        low, high = part
        seconds = float(rounds.created[high - 1] - rounds.created[low])
        return float(mine[low:high].sum()) / seconds if seconds > 0 else 0.0

    return max(pairwise(edges), key=share)


def told_apart(late: Sequence[LateRank], members: Mapping[int, tuple[int, ...]]) -> tuple[LateRank, ...]:
    """Slow ranks first. One that takes part in another group, which waits for another rank for longer, is a victim.

    `members`: per group.
    """
    roots = [one for one in late if one.pattern in SLOW]
    found = []
    for one in late:
        held = one.pattern in SLOW and any(
            root.rank != one.rank and root.share > one.share and one.rank in members[root.group] for root in roots
        )
        found.append(replace(one, pattern=Pattern.VICTIM) if held else one)
    found.sort(key=lambda one: (one.pattern not in SLOW, -one.share, one.group))
    return tuple(found)
