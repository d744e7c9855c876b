"""Which rank the others waited for, where the results tell: one odd rank among several, again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rankmuster.baseline.thresholds import PLATEAU_FROM
from rankmuster.model.benchmark import BenchmarkRun, Measurement

ODD = 0.10
"""Relative distance of one rank's mean time from the median of the others from which it is odd. Ranks of a healthy
node end each collective together: they differ by launch times, microseconds against hundreds of them."""

TOGETHER = 0.05
"""The others must lie as close as this to each other: otherwise all scatter, and nobody is named."""

SHARE = 0.5
"""Of the sizes at which ranks were timed: one odd row is chance."""

LEAST_RANKS = 3
"""Of two, nobody can say which is odd."""


@dataclass(frozen=True, slots=True)
class SlowRank:
    """`percent`: how far off it was at most. `sizes`: how many of `of` it was odd at."""

    rank: int
    percent: float
    sizes: int
    of: int
    place: str

    @property
    def words(self) -> str:
        """For a statement, with what to look for."""
        return (
            f"rank {self.rank}{self.place} is the slow one: {self.percent:.0f} % off the others at {self.sizes} of "
            f"{self.of} sizes; look for other work, heat or a bad link there"
        )


def slow_rank(runs: Sequence[BenchmarkRun]) -> SlowRank | None:
    """Over all sizes of the plateau (all sizes, where none is that large); None where no rank stands out."""
    rows = [row for run in runs for row in run.measurements if len(row.ranks_us) >= LEAST_RANKS]
    rows = [row for row in rows if row.cell.size_bytes >= PLATEAU_FROM] or rows
    votes: Counter[int] = Counter()
    worst: dict[int, float] = {}
    for row in rows:
        odd = _odd(row)
        if odd is not None:
            votes[odd[0]] += 1
            worst[odd[0]] = max(worst.get(odd[0], 0.0), odd[1])
    if not votes:
        return None
    rank, count = votes.most_common(1)[0]
    if count < SHARE * len(rows) or sum(other == count for other in votes.values()) > 1:
        return None
    return SlowRank(rank, 100 * worst[rank], count, len(rows), _place(runs, rank))


def _odd(row: Measurement) -> tuple[int, float] | None:
    """The one rank that is away from all others, and how far, relatively."""
    times = row.ranks_us
    found = []
    for rank, time in enumerate(times):
        others = [other for number, other in enumerate(times) if number != rank]
        middle = median(others)
        if middle <= 0 or time <= 0:
            return None
        away = abs(time - middle) / middle
        if away >= ODD and max(others) - min(others) <= TOGETHER * middle:
            found.append((rank, away))
    return found[0] if len(found) == 1 else None


def _place(runs: Sequence[BenchmarkRun], rank: int) -> str:
    for run in runs:
        for known in run.ranks:
            if known.rank == rank:
                where = f", {known.bus_id}" if known.bus_id else ""
                return f" (GPU {known.device}{where})"
    return ""
