"""The analysis of slow collectives: from aligned dumps to values, group by group, so that memory stays one group's.

Blind to graph replays, to communicators beside torch's, and to sends and receives, of which a rank's own duration tells
nothing of who came late. Without TORCH_NCCL_ENABLE_TIMING there are no durations, and only hosts' enqueueing is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rankmuster.diagnose.chosen import joined
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.legal import symmetric_mask
from rankmuster.diagnose.slow import alike, host_skew, late, operations
from rankmuster.diagnose.slow.disturbed import before_stack_dumps, disturbed
from rankmuster.diagnose.slow.lateness import rounds_of
from rankmuster.diagnose.slow.limits import DEFAULTS, SlowLimits
from rankmuster.diagnose.slow.matrix import GroupMatrix, build
from rankmuster.diagnose.slow.notes import notes_of
from rankmuster.diagnose.slow.operations import Measured
from rankmuster.diagnose.slow.surroundings import describe, hosts_of
from rankmuster.model.slow import (
    QUANTILES,
    CollectiveTable,
    Growth,
    HostSkew,
    LateRank,
    Operation,
    RankTable,
    SlowReport,
    Timing,
)


def measure(context: Context, limits: SlowLimits = DEFAULTS, *, collectives: bool = False) -> SlowReport:
    """Everything that the dumps say of speed. `collectives`: with one row for each of them, for notebooks."""
    symmetric = symmetric_mask(context.table)
    slowed_by_dump = disturbed(context)
    end, only_disturbed = _usable_until(context)
    measured: list[Measured] = []
    found: list[LateRank] = []
    whole: set[int] = set()
    partial: list[GroupMatrix] = []
    left_out = total = unseen = 0
    shifts = _shifts(context)
    window = [np.inf, -np.inf]
    for group in context.table.groups:
        matrix = build(context.table, group, shifts=shifts)
        if matrix is None or not len(matrix.numbers):
            unseen += len(group.members) > 1 and any((group.key, rank) in context.table.rolls for rank in group.members)
            continue
        total += len(matrix.numbers)
        early = matrix.only(matrix.created < end)
        left_out += len(matrix.numbers) - len(early.numbers)
        if not len(early.numbers):
            continue
        window = [min(window[0], float(early.created.min())), max(window[1], float(early.created.max()))]
        rounds = rounds_of(early, symmetric)
        measured += operations.of_group(
            early,
            rounds,
            context.table.signatures,
            symmetric,
            hosts_of(context, group),
            len(measured),
            limits,
            collectives=collectives,
        )
        if early.whole:
            whole.add(group.key)
        else:
            partial.append(early)
        one = late.of_group(context, early, rounds, limits, disturbed=slowed_by_dump) if not only_disturbed else None
        if one is not None:
            found.append(one)
    timed = total > 0
    skews: list[HostSkew] = []
    if not timed:
        skews = [row for group in context.table.groups for row in host_skew.of_group(context, group, limits)]
    seconds = max(0.0, window[1] - window[0]) if measured else 0.0
    every = tuple(one.operation for one in measured)
    members = {group.key: group.members for group in context.table.groups}
    unsound = slowed_by_dump or only_disturbed
    timing = Timing.EVENTS if timed else Timing.HOST if skews else Timing.NONE
    return SlowReport(
        timing=timing,
        window=(window[0], window[1]) if measured else _enqueued(context),
        disturbed=slowed_by_dump,
        only_disturbed=only_disturbed,
        left_out=left_out,
        judged=len(found),
        surroundings=describe(context),
        operations=every,
        ranks=_ranks([one.ranks for one in measured]),
        late=late.told_apart(found, members),
        slow_groups=() if unsound else tuple(alike.slower(every, frozenset(whole), seconds, limits)),
        grown=() if unsound else _grown(every, frozenset(whole), limits),
        host_skew=tuple(skews),
        collectives=_collectives([one.collectives for one in measured]) if collectives else None,
        notes=notes_of(context, timing, partial, unseen=unseen, left_out=left_out, only_disturbed=only_disturbed),
    )


def _shifts(context: Context) -> dict[int, float]:
    """Rank -> seconds to add to its host's clock, where hosts' clocks are known to differ."""
    offsets = context.job.clock_offsets
    hosts = {rank: context.job.rank(rank).host for rank in context.table.rows} if offsets else {}
    return {rank: offsets[host][0] for rank, host in hosts.items() if host is not None and host in offsets}


def _usable_until(context: Context) -> tuple[float, bool]:
    """(unix seconds up to which collectives are looked at, whether all there is was slowed by dumps with stacks)."""
    end = before_stack_dumps(context)
    rolls = context.table.rolls.values()
    before = sum(int((roll.created < end).sum()) for roll in rolls) if end < np.inf else 0
    if end < np.inf and before < context.limits.late_rounds * len(rolls):
        return np.inf, True
    return end, False


def _enqueued(context: Context) -> tuple[float, float]:
    """First and last enqueue that the dumps tell of, unix seconds; zeros for none."""
    stamps = [roll.created for roll in context.table.rolls.values() if len(roll.created)]
    if not stamps:
        return 0.0, 0.0
    return min(float(one.min()) for one in stamps), max(float(one.max()) for one in stamps)


def _grown(every: Sequence[Operation], whole: frozenset[int], limits: SlowLimits) -> tuple[Growth, ...]:
    """Transfers that take longer since some time, by what that costs; all of one group together decide."""
    found: list[tuple[int, Growth]] = []
    lost: dict[int, float] = defaultdict(float)
    for one in every:
        if one.change is not None and one.change.grew and one.group in whole:
            lost[one.group] += one.change.share
            found.append((one.group, Growth(one.index, one.label, one.key, one.change, False)))
    told = [replace(growth, matters=lost[group] >= limits.shared_share) for group, growth in found]
    told.sort(key=lambda growth: (not growth.matters, -growth.change.share))
    return tuple(told)


def _ranks(parts: Sequence[RankTable]) -> RankTable:
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros((0, len(QUANTILES)))
    return joined(parts or (RankTable(none, none, none, nothing, nothing, nothing, none, np.zeros(0)),))


def _collectives(parts: Sequence[CollectiveTable | None]) -> CollectiveTable:
    kept = [part for part in parts if part is not None]
    none = np.zeros(0, dtype=np.int64)
    return joined(kept or (CollectiveTable(none, none, np.zeros(0), np.zeros(0), np.zeros(0), none),))
