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


RATE_INTERVALS = 6
"""Fewest intervals between pages on which a rate is compared with an earlier one."""


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
    elif advances and frozen < limit:
        slow = recent is not None and before is not None and recent < limits.slow_ratio * before
        moves = Moves.SLOW if slow else Moves.ADVANCING
        text = f"{engine}: {name} advanced until {last_time - start:.1f} s before the last page"
        if slow and recent is not None and before is not None:
            text += f", at {recent:.0f}/s against {before:.0f}/s before"
    else:
        moves = Moves.UNCLEAR
        text = f"{engine}: {len(points)} page{'s' if len(points) != 1 else ''}, too few or too short to tell"
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
    )


def _rates(context: Context, points: list[tuple[float, EngineStream, str]]) -> tuple[float | None, float | None]:
    """Median rate of the last third of the intervals and of those before, ramp-up and stacked dumps left out."""
    dumps = [
        time
        for notice in context.evidence.of(DumpNotice)
        if notice.with_stacks is not False and (time := context.time(notice.origin.stamp)) is not None
    ]
    quiet = context.limits.stack_dump_seconds
    rates = []
    for (start, one, _), (end, other, _) in pairwise(points):
        disturbed = any(start - 1.0 <= time <= end or time <= start <= time + quiet for time in dumps)
        if end <= start or disturbed or not (one.running and other.running):
            continue
        steps = [other.steps[name] - value for name, value in one.steps.items() if name in other.steps]
        if steps and max(steps) >= 0:
            rates.append(max(steps) / (end - start))
    rates = rates[2:]
    if len(rates) < RATE_INTERVALS:
        return None, None
    third = max(len(rates) // 3, 2)
    return float(np.median(rates[-third:])), float(np.median(rates[:-third]))
