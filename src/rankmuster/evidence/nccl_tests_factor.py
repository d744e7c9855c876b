"""What the numbers of a table say of its group: busbw / algbw, and size / count, for an operation over n ranks.

Both are printed with two decimals, so a row leaves an interval for their ratio. All rows together leave one so narrow
that 72 ranks are told from 71 at some hundred GB/s: enough to hold against the list of ranks, and against the
operation that a header claims.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankmuster.evidence.nccl_tests_operation import WHOLE, element_bytes
from rankmuster.evidence.nccl_tests_rows import Placement, Row
from rankmuster.model.benchmark import Operation

STEP = 0.011
"""GB/s by which a printed bandwidth may be off: two steps of its last decimal, rounded or cut off."""

MOST_RANKS = 1_000_000
"""Of a group; the largest clusters have some hundred thousand GPUs."""


@dataclass(frozen=True, slots=True)
class Factor:
    """busbw / algbw lies from `least` to `most`, as all rows together say."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        return (self.least + self.most) / 2


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many ranks the numbers allow. `most` None: any number from `least` on; (1, None) says nothing."""

    least: int
    most: int | None

    def allow(self, ranks: int) -> bool:
        return self.least <= ranks and (self.most is None or ranks <= self.most)

    @property
    def only(self) -> int | None:
        """The one number that is left."""
        return self.least if self.least == self.most else None


ANY = Sizes(1, None)
NONE = Sizes(1, 0)


def halves(rows: Iterable[Row]) -> Iterable[Placement]:
    """Every placement that was measured."""
    return (half for row in rows for half in (row.out_of_place, row.in_place) if half is not None)


def factor(rows: Sequence[Row]) -> Factor | None:
    """What all rows leave of busbw / algbw, None where no row says anything. See `odd_one` for rows that disagree."""
    found = [_factor(half) for half in halves(rows) if _says(half)]
    if not found:
        return None
    return Factor(max(one.least for one in found), min(one.most for one in found))


def odd_one(rows: Sequence[Row]) -> Row | None:
    """Where the rows disagree on busbw / algbw, the first that most others contradict; None where they agree."""
    whole = factor(rows)
    if whole is None or whole.least <= whole.most:
        return None
    ratios = sorted(half.busbw / half.algbw for half in halves(rows) if half.algbw >= 1 and _says(half))
    ratios = ratios or [whole.middle]
    usual = ratios[len(ratios) // 2]
    for row in rows:
        for half in halves([row]):
            if _says(half) and not _factor(half).least <= usual <= _factor(half).most:
                return row
    return rows[0]


def _says(half: Placement) -> bool:
    """Whether its numbers are some: a damaged file may have infinite ones."""
    return STEP < half.algbw < math.inf and math.isfinite(half.busbw)


def _factor(half: Placement) -> Factor:
    return Factor((half.busbw - STEP) / (half.algbw + STEP), (half.busbw + STEP) / (half.algbw - STEP))


def sizes(operation: Operation, rows: Sequence[Row]) -> Sizes:
    """The numbers of ranks for which a table of this operation has these numbers; NONE where there is none."""
    by_count = _by_count(operation, rows)
    by_factor = _by_factor(operation, factor(rows))
    least = max(by_count.least, by_factor.least)
    ends = [one.most for one in (by_count, by_factor) if one.most is not None]
    return Sizes(least, min(ends, default=None))


def _by_factor(operation: Operation, found: Factor | None) -> Sizes:
    if found is None:
        return ANY
    if operation.bus_factor(2) == operation.bus_factor(3):
        return ANY if found.least <= operation.bus_factor(2) <= found.most else NONE
    # 2(n-1)/n or (n-1)/n, which rise to their limit
    limit = operation.bus_factor(2) * 2
    least = max(1, math.ceil(_ranks_of(found.least, limit) - 1e-9)) if found.least < limit else MOST_RANKS
    if found.most >= limit:
        return Sizes(least, None) if found.least < limit else NONE
    return Sizes(least, math.floor(_ranks_of(found.most, limit) + 1e-9))


def _ranks_of(value: float, limit: float) -> float:
    return limit / (limit - value)


def _by_count(operation: Operation, rows: Sequence[Row]) -> Sizes:
    if operation in WHOLE:
        return ANY
    said = _parts(rows)
    return Sizes(said, said) if said else ANY


def _parts(rows: Sequence[Row]) -> int | None:
    """By how many parts of `count` elements a size is of, as most rows say."""
    found = Counter(_part(row) for row in rows)
    del found[None]
    return found.most_common(1)[0][0] if found else None


def _part(row: Row) -> int | None:
    """size / (count x the type's bytes); None where the row does not tell, 0 where it is no whole number."""
    width = element_bytes(row.dtype)
    if width is None or row.count <= 0 or row.size <= 0:
        return None
    return row.size // (row.count * width) if row.size % (row.count * width) == 0 else 0


def odd_count(operation: Operation, rows: Sequence[Row]) -> Row | None:
    """The first row whose size its count and type do not make; None where all agree."""
    wanted = 1 if operation in WHOLE else _parts(rows)
    for row in rows:
        part = _part(row)
        if part is not None and part != wanted:
            return row
        if (row.count == 0) != (row.size == 0) and element_bytes(row.dtype) is not None:
            return row
    return None
