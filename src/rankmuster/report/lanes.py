"""Which ranks and collectives of a group a picture shows around the first divergence, and what each cell of it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.model.fault import Role, Subkind
from rankmuster.model.job import Group, Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.inert import plain
from rankmuster.report.operations import OUTSTANDING, ROW_MARKS, Mark, Operations, divergence_group

MAX_RANKS = 16
"""Ranks drawn per picture: a page's height of rows that can still be told apart."""

BEFORE = 4
"""Collectives drawn before the one in focus: the last step that was in order, for most models."""

AFTER = 4
"""Collectives drawn from the focus on, besides it: what ran ahead; usually the rest of one decode step."""

MISMATCHES = (Subkind.OP_MISMATCH, Subkind.SIZE_MISMATCH, Subkind.DTYPE_MISMATCH)

MAX_GROUPS = 6
"""Groups drawn: tensor, pipeline and expert groups of a rank, and the world."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One rank at one number. `created`, `ended`: unix seconds, NaN unknown or still outstanding."""

    rank: int
    seq: int
    mark: Mark
    op: str = ""
    created: float = float("nan")
    ended: float = float("nan")
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Lanes:
    """A group's picture: every rank of `ranks` at every number of `numbers`.

    `focus`: the number of the first divergence, else the newest that any rank entered. `p2p`: numbers of sends and
    receives, which each rank counts for itself. `odd`: cells that entered something else than most ranks did.
    `ranks_left`, `numbers_left`: how many were left out, the latter of those still in the ring buffers.
    """

    group: Group
    p2p: bool
    focus: int
    diverges: bool
    ranks: tuple[int, ...]
    numbers: tuple[int, ...]
    cells: Mapping[tuple[int, int], Cell]
    looks: Mapping[int, float | None]
    odd: frozenset[tuple[int, int]]
    ranks_left: int
    numbers_left: int


def chosen(ranks: Sequence[int], first: Sequence[int], limit: int = MAX_RANKS) -> tuple[int, ...]:
    """At most `limit` of `ranks`, those of `first` before others, in order of rank."""
    wanted = set(first)
    ordered = sorted(ranks, key=lambda rank: (rank not in wanted, rank))
    return tuple(sorted(ordered[:limit]))


def odd_ranks(verdict: Verdict, job: Job) -> list[int]:
    """The ranks that a picture must not leave out: named ones, missing ones, ended ones, and those without a dump."""
    named = [
        suspect.rank for suspect in verdict.suspects if suspect.rank is not None and suspect.role is not Role.VICTIM
    ]
    missing = list(verdict.first_divergence.missing) if verdict.first_divergence is not None else []
    ended = [rank.rank for rank in job.ranks if rank.exit_code is not None]
    mute = [rank.rank for rank in job.ranks if job.dumps and rank.rank not in job.dumps]
    return list(dict.fromkeys([*named, *missing, *ended, *mute]))


def _cell(rank: int, seq: int, group: Group, p2p: bool, table: Operations | None, job: Job, missing: bool) -> Cell:
    if table is None:
        view = job.views.get((group.key, rank))
        if view is not None and not p2p and seq <= view.finished:
            return Cell(rank, seq, Mark.FINISHED)
        if missing:
            return Cell(rank, seq, Mark.MISSING)
        return Cell(rank, seq, Mark.NO_DUMP)
    row = table.find(group.key, seq, p2p)
    if row is not None:
        return Cell(
            rank,
            seq,
            ROW_MARKS[int(table.mark[row])],
            plain(table.op_name(row), 60),
            float(table.created[row]),
            float(table.ended[row]),
            table.source,
        )
    if missing:
        return Cell(rank, seq, Mark.MISSING)
    rows = table.rows_of(group.key, p2p)
    oldest = int(table.seq[rows].min()) if len(rows) else 0
    return Cell(rank, seq, Mark.OVERWRITTEN if seq < oldest else Mark.NOT_ENTERED)


def _odd(
    verdict: Verdict,
    cells: Mapping[tuple[int, int], Cell],
    ranks: Sequence[int],
    numbers: Sequence[int],
    diverging: int | None,
) -> frozenset[tuple[int, int]]:
    odd: set[tuple[int, int]] = set()
    for seq in numbers:
        ops = Counter(cells[rank, seq].op for rank in ranks if cells[rank, seq].op)
        if len(ops) > 1:
            usual, most = ops.most_common(1)[0]
            if 2 * most > sum(ops.values()):  # without a majority nobody is odd
                odd.update((rank, seq) for rank in ranks if cells[rank, seq].op not in ("", usual))
    if diverging is not None and verdict.subclass in MISMATCHES:
        named = {suspect.rank for suspect in verdict.suspects if suspect.role is not Role.VICTIM}
        odd.update((rank, diverging) for rank in ranks if rank in named and cells[rank, diverging].op)
    return frozenset(odd)


def lanes(group: Group, verdict: Verdict, job: Job, tables: Mapping[int, Operations]) -> Lanes | None:
    """The picture of one group, None where no rank of it left an operation."""
    here = divergence_group(verdict, job)
    diverges = here is not None and here.key == group.key
    first = verdict.first_divergence if diverges else None
    seen: dict[bool, set[int]] = {False: set(), True: set()}
    for rank in group.members:
        table = tables.get(rank)
        for p2p in (False, True):
            if table is not None:
                seen[p2p].update(table.seq[table.rows_of(group.key, p2p)].tolist())
    p2p = not seen[False]
    if first is not None and first.op is not None and seen[True]:
        p2p = first.op.startswith(("send", "recv"))
    if not seen[p2p]:
        return None

    focus = first.sequence if first is not None and first.sequence is not None else max(seen[p2p])
    numbers = tuple(sorted(number for number in {*seen[p2p], focus} if focus - BEFORE <= number <= focus + AFTER))
    missing = set(first.missing) if first is not None else set()
    ranks = chosen(group.members, odd_ranks(verdict, job))
    cells = {
        (rank, seq): _cell(rank, seq, group, p2p, tables.get(rank), job, seq == focus and rank in missing)
        for rank in ranks
        for seq in numbers
    }
    return Lanes(
        group=group,
        p2p=p2p,
        focus=focus,
        diverges=diverges,
        ranks=ranks,
        numbers=numbers,
        cells=cells,
        odd=frozenset() if p2p else _odd(verdict, cells, ranks, numbers, focus if diverges else None),
        looks={rank: tables[rank].look if rank in tables else None for rank in ranks},
        ranks_left=len(group.members) - len(ranks),
        numbers_left=len(seen[p2p] - set(numbers)),
    )


def drawn_groups(verdict: Verdict, job: Job, tables: Mapping[int, Operations]) -> tuple[tuple[Group, ...], int]:
    """The groups to draw, the diverging one first, then those with most left outstanding; and how many are left out."""
    here = divergence_group(verdict, job)
    waiting = {group.key: 0 for group in job.groups}
    used = set()
    indexes = [ROW_MARKS.index(mark) for mark in OUTSTANDING]
    for table in tables.values():
        keys, counts = np.unique(table.group[np.isin(table.mark, indexes)], return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            waiting[key] = waiting.get(key, 0) + count
        used.update(np.unique(table.group).tolist())
    drawable = [group for group in job.groups if group.key in used]
    drawable.sort(key=lambda group: (here is None or group.key != here.key, -waiting[group.key], group.key))
    return tuple(drawable[:MAX_GROUPS]), max(0, len(drawable) - MAX_GROUPS)
