"""How long steps took between two scrapes, from the buckets of a histogram that only ever grows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from rankmuster.evidence import engine_page, text
from rankmuster.evidence import engine_table as table
from rankmuster.evidence.log_prefix import decimal

MOST_SETS = 256
"""Label sets remembered of one server: a histogram a replica has one to ten."""

MOST_BOUNDS = 200
"""Buckets of one label set: engines have fifteen to forty."""

Labels = tuple[tuple[str, str], ...]
Place = tuple[str, int, Labels]
"""Engine, rank of its histogram, and the labels without the bucket's bound."""


@dataclass(frozen=True, slots=True)
class Spread:
    """`values`: seconds, the middles of buckets. `counts`: how many steps fell into each since the scrape before."""

    engine: str
    values: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(slots=True)
class StepTimes:
    """One server's. The first scrape is what later ones are compared with, and says nothing itself."""

    buckets: Mapping[str, tuple[str, int, table.Histogram]]
    _before: dict[Place, dict[float, float]] = field(default_factory=dict)
    _begun: bool = False

    def add(self, lines: bytes) -> tuple[Spread, ...]:
        """Takes the samples of one scrape; what came since the one before, of each engine on it."""
        now = self._read(lines)
        best: dict[str, int] = {}
        for engine, rank, _ in now:
            best[engine] = min(rank, best.get(engine, rank))
        found: dict[str, dict[float, float]] = {}
        for place, cumulative in now.items():
            engine, rank, _ = place
            rises = _rises(self._before.get(place), cumulative)
            if rises is None:
                continue
            if place in self._before or len(self._before) < MOST_SETS:
                # A set that the page lacked for once is remembered, else its whole past would count as new.
                self._before[place] = cumulative
            else:
                continue
            if self._begun and rank == best[engine]:
                whole = found.setdefault(engine, {})
                for middle, count in rises.items():
                    whole[middle] = whole.get(middle, 0.0) + count
        self._begun = self._begun or bool(lines)
        return tuple(
            Spread(engine, tuple(sorted(rises)), tuple(rises[middle] for middle in sorted(rises)))
            for engine, rises in found.items()
            if rises
        )

    def _read(self, lines: bytes) -> dict[Place, dict[float, float]]:
        """Cumulative counts by upper bound; of what comes twice (ranks of one replica, repeated series) the largest."""
        found: dict[Place, dict[float, float]] = {}
        for _, line in text.lines(lines):
            known = self.buckets.get(line[: line.find("{")].strip())
            if known is None:
                continue
            split = engine_page.fields_of(line, line.find("{"))
            value = decimal(split[1][0]) if split and split[1] else None
            if split is None or value is None or not math.isfinite(value) or value < 0:
                continue
            labels = split[0]
            bound = decimal(labels.get("le"))
            engine, rank, histogram = known
            if bound is None or math.isnan(bound) or bound < 0 or any(labels.get(one) for one in table.PART_LABELS):
                continue
            if histogram.only and labels.get(histogram.split or "") not in histogram.only:
                continue
            rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le" and k not in table.RANK_LABELS))
            counts = found.setdefault((engine, rank, rest), {})
            if bound in counts or len(counts) < MOST_BOUNDS:
                counts[bound] = max(value, counts.get(bound, value))
        return found


def _rises(before: Mapping[float, float] | None, now: Mapping[float, float]) -> dict[float, float] | None:
    """Middle of a bucket -> how many came into it; None where these counts are not to be believed.

    Where one fell the server was started again: all of it is new then, as of a label set that was not there before.
    """
    bounds = sorted(now)
    if any(now[later] < now[earlier] for earlier, later in pairwise(bounds)):
        return None
    fell = before is not None and any(now[bound] < before[bound] for bound in bounds if bound in before)
    if before is not None and not fell and before.keys() != now.keys():
        # A line was damaged, now or then: what fell into which bucket cannot be told.
        return None if now.keys() < before.keys() else {}
    past = {} if before is None or fell else before
    found: dict[float, float] = {}
    lower, below = 0.0, 0.0
    for bound in bounds:
        rise = now[bound] - past.get(bound, 0.0)
        middle = lower if math.isinf(bound) else (lower + bound) / 2
        if rise > below and middle > 0:
            found[middle] = found.get(middle, 0.0) + rise - below
        lower, below = bound, max(rise, below)
    return found
