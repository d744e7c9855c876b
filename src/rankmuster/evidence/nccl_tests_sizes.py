"""Whether a table has all the sizes that its run was started for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.evidence.nccl_tests_rows import Row

MOST_SIZES = 100_000
"""Sizes of one series that are counted; more would be a mistake of the caller's, or a damaged line."""

ALIGNMENT = 16
"""Bytes to which nccl-tests rounds each rank's part down (`getCollByteCount` in src/*.cu)."""


@dataclass(frozen=True, slots=True)
class Series:
    """What the run was started for: bytes, and a factor or a step between sizes."""

    least: int
    most: int
    factor: int | None
    step: int | None

    def sizes(self) -> tuple[int, ...]:
        """All sizes, rising, as common.cu steps through them; () where it would never end."""
        found: list[int] = []
        size = self.least
        while size <= self.most and len(found) < MOST_SIZES:
            found.append(size)
            further = size * self.factor if self.factor is not None and self.factor > 1 else size + (self.step or 0)
            if further <= size:
                return tuple(found) if self.least == self.most else ()
            size = further
        return tuple(found)


def missing(rows: Sequence[Row], series: Series | None, ranks: int | None) -> tuple[str, ...]:
    """What is missing of the sizes, as sentences; nothing where nobody knows what the run was started for.

    Sizes themselves cannot be compared: what ranks cannot share evenly is rounded down. So rows are counted, for each
    type, redop and root, and the last one is looked at.
    """
    if series is None or not rows:
        return ()
    sizes = series.sizes()
    if not sizes:
        return ()
    found: list[str] = []
    largest = max(row.size for row in rows)
    if largest < sizes[-1] - ALIGNMENT * max(ranks or 1, 1):
        found.append(f"the last size is {largest} bytes, and it was started for sizes up to {sizes[-1]}")
    for (dtype, redop, root), count in Counter((row.dtype, row.redop, row.root) for row in rows).items():
        if count % len(sizes):
            of = " ".join(str(word) for word in (dtype, redop, root) if word is not None)
            found.append(f"{count} rows of {of} where {len(sizes)} sizes were asked for")
    return tuple(found[:3])
