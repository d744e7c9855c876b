"""What the dumps still hold of a group: the numbers that all members have, and where rings overwrote the rest.

A number below the first that a member's ring holds is unknown there, and never counts as not entered.
"""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.model.flight_report import Gap, GapKind, Window
from rankmuster.model.job import Group

MAX_BEGINNINGS = 6
"""Different first numbers that are told; rings that are read one after the other all begin elsewhere."""

MAX_GAPS = 12
"""Gaps told of one group; a program that captures in every step has hundreds."""


def window(context: Context, group: Group) -> Window | None:
    """None where no dump holds a number of it."""
    table, key = context.table, group.key
    held = [(rank, roll.seq) for rank in group.members if (roll := table.rolls.get((key, rank))) is not None]
    if not held:
        return None
    firsts = {rank: int(seq[0]) for rank, seq in held}
    begin, low = min(firsts.values()), max(firsts.values())
    lasts = [int(seq[-1]) for _, seq in held]
    late: dict[int, list[int]] = defaultdict(list)
    for rank, first in firsts.items():
        if first > begin and _begins_anywhere(context, rank):
            late[first].append(rank)
    told = sorted(late.items(), reverse=True)
    return Window(
        first=begin,
        last=max(lasts),
        common=(low, min(lasts)) if low <= min(lasts) else None,
        holders=len(held),
        overwritten=tuple((tuple(ranks), first) for first, ranks in told[:MAX_BEGINNINGS]),
        begins=len(told),
    )


def _begins_anywhere(context: Context, rank: int) -> bool:
    """Whether a dump says nothing of what was before its beginning: its ring lost it, or it lists no finished one."""
    dump = context.table.rows[rank].dump
    return dump.only_active or int(dump.columns.record_id[0]) > 0


def gaps(context: Context, group: Group) -> tuple[Gap, ...]:
    """Numbers without a record between others, the first ones."""
    import numpy as np

    table, key = context.table, group.key
    held: dict[int, tuple[int, int]] = {}
    lacking: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank in group.members:
        roll = table.rolls.get((key, rank))
        if roll is None or table.rows[rank].dump.only_active:
            continue
        seq = roll.seq
        first, last = int(seq[0]), int(seq[-1])
        held[rank] = (first, last)
        if last - first + 1 == len(seq):
            continue
        for place in np.flatnonzero(np.diff(seq) > 1)[-MAX_GAPS:].tolist():
            lacking[int(seq[place]) + 1, int(seq[place + 1]) - 1].append(rank)
    found = []
    for (low, high), ranks in sorted(lacking.items()):
        around = [rank for rank, (first, last) in held.items() if first < low and high < last]
        kind = GapKind.COMMON if set(ranks) >= set(around) else GapKind.PARTIAL
        found.append(Gap(low, high, kind, tuple(ranks)))
    found.sort(key=lambda gap: (gap.kind is GapKind.COMMON, -gap.first))
    return tuple(found[:MAX_GAPS])
