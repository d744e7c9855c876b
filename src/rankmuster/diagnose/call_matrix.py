"""What the members of a group passed under each number: one table, ranks by numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.roll import RankRoll, RollTable
from rankmuster.model.flight import Indexes, Ints

SPARSE = 4
"""Numbers between a group's first and last per number of its longest roll, above which the table holds those alone
that somebody has: stale counters and graph captures leave gaps of any width."""

_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class CallMatrix:
    """`calls`: indexes into the table's signatures, -1 absent, shape (ranks, numbers); `numbers`: shape (numbers,)."""

    numbers: Ints
    calls: Indexes

    def differing(self) -> list[int]:
        """Columns in which at least two members passed something, and not the same."""
        if not self.calls.size:
            return []
        lowest = np.where(self.calls < 0, _MOST, self.calls).min(axis=0)
        found: list[int] = np.flatnonzero(self.calls.max(axis=0) > lowest).tolist()
        return found

    def agreed_before(self, column: int) -> bool:
        """Whether at least two members passed the same under an earlier number."""
        before = self.calls[:, :column]
        if not before.size:
            return False
        alike = np.where(before < 0, _MOST, before).min(axis=0) == before.max(axis=0)
        return bool((alike & ((before >= 0).sum(axis=0) > 1)).any())

    def entered(self, column: int, ranks: Sequence[int]) -> dict[int, int]:
        """Rank -> signature under the column's number; `ranks` are those of the rows."""
        own = self.calls[:, column]
        return {ranks[row]: int(own[row]) for row in np.flatnonzero(own >= 0).tolist()}


def call_matrix(
    table: RollTable, rolls: Iterable[RankRoll], low: int | None = None, high: int | None = None
) -> CallMatrix:
    """The table of `rolls`, from number `low` to `high`, both included, where given.

    What a ring buffer has overwritten in part is absent: it is unknown, and differs from nothing.
    """
    parts = []
    for roll in rolls:
        start = 0 if low is None else int(np.searchsorted(roll.seq, low))
        end = len(roll.seq) if high is None else int(np.searchsorted(roll.seq, high, side="right"))
        parts.append((roll.seq[start:end], roll.signature[start:end]))
    spans = [(int(seq[0]), int(seq[-1])) for seq, _ in parts if len(seq)]
    if not spans:
        return CallMatrix(np.zeros(0, dtype=np.int64), np.zeros((len(parts), 0), dtype=np.int32))
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    width = last - first + 1
    dense = width <= SPARSE * max(len(seq) for seq, _ in parts)
    numbers = np.arange(first, last + 1) if dense else np.unique(np.concatenate([seq for seq, _ in parts]))
    calls = np.full((len(parts), len(numbers)), -1, dtype=np.int32)
    for row, (seq, signature) in enumerate(parts):
        calls[row, seq - first if dense else np.searchsorted(numbers, seq)] = signature
    if len(table.cut):
        calls[np.isin(calls, table.cut)] = -1
    return CallMatrix(numbers, calls)
