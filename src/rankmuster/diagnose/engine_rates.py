"""The rate of an engine's counters at the end of its pages, against what it was before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_series import Point
from rankmuster.diagnose.middle import median
from rankmuster.model.engine import EngineStream

SECONDARY = ("prompt", "prefill")
"""Parts of names of counters that follow arrivals, not the rate of steps."""

DUMP_LEAD = 1.0
"""Seconds before a dump is announced in which it may have slowed the job already."""


def follows_arrivals(counter: str) -> bool:
    """Whether a counter says more of what came in than of what was computed."""
    return any(part in counter for part in SECONDARY)


def rates(context: Context, points: Sequence[Point]) -> tuple[float | None, float | None]:
    """Rate at the end and before, of the counter that held up best; ramp-up and stacked dumps left out.

    Only counters that move in nearly every interval tell a rate: prompt tokens come and go with arrivals. A rate that
    fell with the number of running requests fell with the load: it is compared per request then.
    """
    limits = context.limits
    dumps = context.stack_dumps()
    if not dumps:
        # Without the log of it, a dump with stacks is known by its file: it was asked for seconds before it was taken.
        stacked = (flight for flight in context.table.rows.values() if len(flight.dump.columns.stacks))
        dumps = [flight.newest - limits.stack_write_seconds for flight in stacked]
    quiet = limits.stack_dump_seconds
    kept: list[tuple[float, float, EngineStream, EngineStream]] = []  # seconds, requests running
    for earlier, later in pairwise(points):
        start, one, end, other = earlier.time, earlier.stream, later.time, later.stream
        disturbed = any(start - DUMP_LEAD <= time <= end or time <= start <= time + quiet for time in dumps)
        if end > start and not disturbed and one.running and other.running:
            kept.append((end - start, (one.running + other.running) / 2, one, other))
    kept = kept[limits.ramp_intervals :]
    if len(kept) < limits.rate_intervals:
        return None, None
    third = max(len(kept) // 3, 2)
    best: tuple[float, float] | None = None
    names = list(points[-1].stream.steps)
    names = [name for name in names if not follows_arrivals(name)] or names
    for name in names:
        found = []
        for seconds, running, one, other in kept:
            step = other.steps.get(name, 0.0) - one.steps.get(name, 0.0)
            found.append((step / seconds, step / seconds / running))
        if sum(rate > 0 for rate, _ in found) < limits.steady_share * len(found):
            continue
        kinds = tuple(zip(*found, strict=True))  # a second, and a second and request
        pair = max(
            ((median(kind[-third:]), median(kind[:-third])) for kind in kinds),
            key=lambda pair: pair[0] / pair[1] if pair[1] > 0 else 1.0,
        )
        if best is None or pair[0] * best[1] > best[0] * pair[1]:
            best = pair
    return best if best is not None else (None, None)
