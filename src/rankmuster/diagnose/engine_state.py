"""The serving engine's own progress: load against counters that really move (engine facts, section 1e)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.model.engine import EngineStream
from rankmuster.model.frameworklog import DumpNotice


class Moves(str, Enum):
    ADVANCING = "advancing"
    SLOW = "slow"
    IDLE = "idle"
    STALLED = "stalled"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class EngineState:
    """`frozen`: seconds at the end in which nothing moved. `last_advance`: when something last did, unix seconds.

    `recent`, `before`: step units per second at the end and earlier, None where not enough pages tell.
    `gauges_moved`: gauges changed while the counters stood still (a long prefill does that).
    `page_gap`: seconds between two pages, ordinarily. `fresh`: the last advance is no older than ordinary gaps are.
    """

    moves: Moves
    engine: str
    running: float
    waiting: float
    frozen: float
    last_advance: float | None
    last_page: float
    recent: float | None
    before: float | None
    gauges_moved: bool
    evidence: tuple[str, ...]
    text: str
    page_gap: float = 0.0
    fresh: bool = True


RATE_INTERVALS = 6
"""Fewest intervals between pages on which a rate is compared with an earlier one."""


LATE_GAPS = 2.5
"""Ordinary gaps between two advances after which a counter no longer counts as moving, and not yet as stopped."""

SECONDARY = ("prompt", "prefill")
"""Parts of names of counters that follow arrivals, not the rate of steps."""

STEADY_SHARE = 0.8
"""Share of the intervals in which a counter must move for its rate to mean anything."""


def assess(context: Context) -> EngineState | None:
    """The state of the worst stream of all pages; None without pages that carry a time."""
    series: dict[str, list[tuple[float, EngineStream, str]]] = {}
    engine = ""
    for page in context.pages:
        time = context.time(page.time)
        if time is None:
            continue
        engine = page.engine
        for stream in page.streams:
            series.setdefault(stream.key, []).append((time, stream, page.source))
    states = [state for points in series.values() if (state := _stream(context, engine, points)) is not None]
    order = (Moves.STALLED, Moves.SLOW, Moves.UNCLEAR, Moves.ADVANCING, Moves.IDLE)
    return min(states, key=lambda state: order.index(state.moves), default=None)


def stopped(context: Context) -> bool:
    """Whether the engine's counters or a watchdog show that work which should move does not."""
    state = assess(context)
    return context.first_timeout is not None or (state is not None and state.moves is Moves.STALLED)


def _liveliest(points: list[tuple[float, EngineStream, str]]) -> str:
    """The counter that moved most over all pages, steps before ends."""
    first, last = points[0][1], points[-1][1]
    for before, after in ((first.steps, last.steps), (first.ends, last.ends)):
        if after:
            return max(after, key=lambda name: abs(after[name] - before.get(name, after[name])))
    return "its counters"


def _grew(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    return any(name in before and value != before[name] for name, value in after.items())


def _stream(context: Context, engine: str, points: list[tuple[float, EngineStream, str]]) -> EngineState | None:
    limits = context.limits
    times = [time for time, _, _ in points]
    last_time, last, last_source = points[-1]
    running, waiting = last.running or 0.0, last.waiting or 0.0
    advances = [
        index
        for index in range(1, len(points))
        if _grew(points[index - 1][1].steps, points[index][1].steps)
        or _grew(points[index - 1][1].ends, points[index][1].ends)
    ]
    start = times[advances[-1]] if advances else times[0]
    frozen = last_time - start
    since = advances[-1] if advances else 0
    gauges = any(_grew(points[i - 1][1].gauges, points[i][1].gauges) for i in range(since + 1, len(points)))
    gaps = np.diff([times[index] for index in advances])
    ordinary = float(np.median(gaps)) if len(gaps) >= 2 else 0.0
    limit = max(limits.stall_seconds, limits.stall_gaps * ordinary)
    recent, before = _rates(context, points)
    known_load = last.running is not None or last.waiting is not None
    evidence = tuple(dict.fromkeys((points[since][2], last_source)))
    name = _liveliest(points)
    if last.paused:
        moves, text = Moves.IDLE, f"{engine} is paused or asleep on purpose"
    elif known_load and running + waiting == 0:
        moves = Moves.IDLE
        text = f"{engine}: no request running or waiting"
    elif known_load and frozen >= limit and last.steps:
        moves = Moves.STALLED
        text = f"{engine}: {running:.0f} requests running and {name} unchanged for {frozen:.0f} s"
    elif advances and frozen < max(limits.stall_seconds, LATE_GAPS * ordinary):
        slow = recent is not None and before is not None and recent < limits.slow_ratio * before
        moves = Moves.SLOW if slow else Moves.ADVANCING
        text = f"{engine}: {name} advanced until {last_time - start:.1f} s before the last page"
        if slow and recent is not None and before is not None:
            text += f", at {recent:.3g}/s against {before:.3g}/s before"
    else:
        moves = Moves.UNCLEAR
        text = f"{engine}: {len(points)} page{'s' if len(points) != 1 else ''}, too few or too short to tell"
        if advances and frozen >= limits.stall_seconds:
            text = f"{engine}: {name} unchanged for {frozen:.0f} s, not yet long at one advance per {ordinary:.0f} s"
        if frozen >= limit and not last.steps:
            text = (
                f"{engine}: the counters on this page move only when requests end; flat for {frozen:.0f} s says nothing"
            )
    if gauges and moves is Moves.STALLED:
        text += ", while its gauges still change"
    return EngineState(
        moves,
        engine,
        running,
        waiting,
        frozen,
        start if advances else None,
        last_time,
        recent,
        before,
        gauges,
        evidence,
        text,
        float(np.median(np.diff(times))) if len(times) > 1 else 0.0,
        frozen <= max(limits.tail_seconds, LATE_GAPS * ordinary),
    )


def _rates(context: Context, points: list[tuple[float, EngineStream, str]]) -> tuple[float | None, float | None]:
    """Rate at the end and before, of the counter that held up best; ramp-up and stacked dumps left out.

    Only counters that move in nearly every interval tell a rate: prompt tokens come and go with arrivals. A rate that
    fell with the number of running requests fell with the load: it is compared per request then.
    """
    dumps = [
        time
        for notice in context.evidence.of(DumpNotice)
        if notice.with_stacks is not False and (time := context.time(notice.origin.stamp)) is not None
    ]
    quiet = context.limits.stack_dump_seconds
    kept: list[tuple[float, float, EngineStream, EngineStream]] = []  # seconds, requests running
    for (start, one, _), (end, other, _) in pairwise(points):
        disturbed = any(start - 1.0 <= time <= end or time <= start <= time + quiet for time in dumps)
        if end > start and not disturbed and one.running and other.running:
            kept.append((end - start, (one.running + other.running) / 2, one, other))
    kept = kept[2:]
    if len(kept) < RATE_INTERVALS:
        return None, None
    third = max(len(kept) // 3, 2)
    best: tuple[float, float] | None = None
    names = list(points[-1][1].steps)
    names = [name for name in names if not any(part in name for part in SECONDARY)] or names
    for name in names:
        rates = []
        for seconds, running, one, other in kept:
            step = other.steps.get(name, 0.0) - one.steps.get(name, 0.0)
            rates.append((step / seconds, step / seconds / running))
        if sum(rate > 0 for rate, _ in rates) < STEADY_SHARE * len(rates):
            continue
        absolute, by_request = np.array(rates).T
        pair = max(
            ((float(np.median(kind[-third:])), float(np.median(kind[:-third]))) for kind in (absolute, by_request)),
            key=lambda pair: pair[0] / pair[1] if pair[1] > 0 else 1.0,
        )
        if best is None or pair[0] * best[1] > best[0] * pair[1]:
            best = pair
    return best if best is not None else (None, None)
