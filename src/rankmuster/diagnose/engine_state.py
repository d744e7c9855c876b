"""The serving engine's own progress: load against counters that really move (engine facts, section 1e)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from statistics import median

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_series import Point, Series, changed, grew, series
from rankmuster.diagnose.finding import counted
from rankmuster.diagnose.memo import once
from rankmuster.model.engine import EngineStream


class Moves(str, Enum):
    ADVANCING = "advancing"
    SLOW = "slow"
    IDLE = "idle"
    STALLED = "stalled"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class EngineState:
    """`frozen`: seconds at the end in which nothing moved though requests were there.

    `last_advance`: when something last did, unix seconds; `advanced_after`: the page before that one, so that it was
    between these two.
    `name`, `identity`: what tells it from other engines of the instance, in words and as `Series` has it.
    `recent`, `before`: step units per second at the end and earlier, None where not enough pages tell.
    `gauges_moved`: gauges changed lately, while the counters stood still (a long prefill does that).
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
    name: str = ""
    identity: tuple[str, str, str] = ("", "", "")
    advanced_after: float | None = None


SECONDARY = ("prompt", "prefill")
"""Parts of names of counters that follow arrivals, not the rate of steps."""

MOST_NAMED = 3
"""Engines that advance beside one that has stopped, named in a sentence."""

MOMENT = 0.05
"""Seconds that are no time to speak of."""

DUMP_LEAD = 1.0
"""Seconds before a dump is announced in which it may have slowed the job already."""


ORDER = (Moves.STALLED, Moves.SLOW, Moves.UNCLEAR, Moves.ADVANCING, Moves.IDLE)
"""The worst first. Engines of one instance share its weights and its fate: one that stands holds up its requests."""


@once
def states(context: Context) -> tuple[EngineState, ...]:
    """Every engine that pages still tell of at their end; data-parallel replicas have one each."""
    limits = context.limits
    found = [_state(context, one) for one in series(context)]
    end = max((state.last_page for state in found), default=0.0)
    # A server that was scraped no longer when others still were says nothing of the end.
    return tuple(
        state
        for state in found
        if end - state.last_page <= max(limits.stale_page_seconds, limits.stale_page_gaps * state.page_gap)
    )


@once
def assess(context: Context) -> EngineState | None:
    """The state of the worst engine that pages still tell of at their end; None without pages that carry a time."""
    current = states(context)
    worst = min(current, key=lambda state: ORDER.index(state.moves), default=None)
    if worst is None or worst.moves is not Moves.STALLED:
        return worst
    others = [state.name for state in current if state.moves in (Moves.ADVANCING, Moves.SLOW)]
    if not others:
        return worst
    who = ", ".join(others[:MOST_NAMED]) + (f" and {len(others) - MOST_NAMED} more" if others[MOST_NAMED:] else "")
    return replace(worst, text=f"{worst.text}; meanwhile {who} {'advance' if len(others) > 1 else 'advances'}")


def stopped(context: Context) -> bool:
    """Whether the engine's counters or a watchdog show that work which should move does not."""
    state = assess(context)
    return bool(context.timeouts) or (state is not None and state.moves is Moves.STALLED)


def _liveliest(points: Sequence[Point]) -> str:
    """The counter that moved most over these pages, steps before ends."""
    first, last = points[0].stream, points[-1].stream
    for before, after in ((first.steps, last.steps), (first.ends, last.ends)):
        if after:
            return max(after, key=lambda name: abs(after[name] - before.get(name, after[name])))
    return "its counters"


def _state(context: Context, one: Series) -> EngineState:
    limits = context.limits
    points = one.points
    last = points[-1].stream
    advances = [index for index in range(1, len(points)) if grew(points[index - 1].stream, points[index].stream)]
    since = advances[-1] if advances else 0
    # A reset is no advance, and no stop either: what stands still is told from there on. So it is from the page with
    # which requests came: before, counters stood still for want of them.
    flat_from = max(since, one.start, _asked_from(points))
    end = points[-1].time
    frozen = end - points[flat_from].time
    quiet = end - points[since].time
    gaps = _gaps(points, advances)
    ordinary = median(gaps) if len(gaps) >= 2 else 0.0
    # Gauges that changed, and do so no more, are of a prefill that was at work until then.
    lately = end - _limit(context, ordinary)
    gauges = any(
        after.time > lately and changed(before.stream.gauges, after.stream.gauges)
        for before, after in pairwise(points[flat_from:])
    )
    recent, before = _rates(context, points[one.start :])
    moves, text = _moves(context, one, frozen, quiet if advances else None, ordinary, (recent, before))
    if gauges and moves is Moves.STALLED:
        text += ", while its gauges still change"
    return EngineState(
        moves,
        one.engine,
        last.running or 0.0,
        last.waiting or 0.0,
        frozen,
        points[since].time if advances else None,
        end,
        recent,
        before,
        gauges,
        tuple(dict.fromkeys((points[since].source, points[-1].source))),
        text,
        median(later.time - earlier.time for earlier, later in pairwise(points)) if len(points) > 1 else 0.0,
        quiet <= max(limits.tail_seconds, limits.late_gaps * ordinary),
        one.name,
        one.identity,
        points[since - 1].time if advances else None,
    )


def _load(stream: EngineStream) -> float | None:
    """Requests that run or wait, None where the page does not say."""
    if stream.paused:
        return 0.0
    return None if stream.running is None and stream.waiting is None else (stream.running or 0) + (stream.waiting or 0)


def _asked_from(points: Sequence[Point]) -> int:
    """Index of the first page of those at the end that all show a request; 0 where the last one shows none."""
    index = len(points) - 1
    if not _load(points[index].stream):
        return 0
    while index > 0 and _load(points[index - 1].stream) != 0:
        index -= 1
    return index


def _gaps(points: Sequence[Point], advances: Sequence[int]) -> list[float]:
    """Seconds between two advances, where requests were there all the time in between."""
    return [
        points[later].time - points[earlier].time
        for earlier, later in pairwise(advances)
        if all(_load(point.stream) != 0 for point in points[earlier:later])
    ]


def _limit(context: Context, ordinary: float) -> float:
    """Seconds without any advance under load from which it has stopped."""
    return max(context.limits.stall_seconds, context.limits.stall_gaps * ordinary)


def _moves(
    context: Context,
    one: Series,
    frozen: float,
    quiet: float | None,
    ordinary: float,
    rate: tuple[float | None, float | None],
) -> tuple[Moves, str]:
    """What one engine does, with words. `quiet`: seconds since its last advance, None for none; `rate`: now, before."""
    limits = context.limits
    last = one.points[-1].stream
    running, waiting = last.running or 0.0, last.waiting or 0.0
    loaded = last.running is not None or last.waiting is not None
    limit = _limit(context, ordinary)
    name = _liveliest(one.points[one.start :])
    who = one.name
    if last.paused:
        return Moves.IDLE, f"{who} is paused or asleep on purpose"
    # A page without the series of running requests (a cut copy) does not say that none runs.
    if last.running is not None and running + waiting == 0:
        return Moves.IDLE, f"{who}: no request running or waiting"
    if len(one.resets) > limits.most_resets:
        times = counted(len(one.resets), "time")
        return Moves.UNCLEAR, f"{who}: its counters fell {times}, as pages of several servers under one name do"
    if loaded and frozen >= limit and last.steps:
        load = counted(round(running), "request")
        return Moves.STALLED, f"{who}: {load} running and {name} unchanged for {frozen:.0f} s"
    if quiet is not None and quiet < max(limits.stall_seconds, limits.late_gaps * ordinary):
        recent, before = rate
        until = f"until {quiet:.1f} s before the last page" if quiet >= MOMENT else "up to the last page"
        text = f"{who}: {name} advanced {until}"
        if recent is not None and before is not None and recent < limits.slow_ratio * before:
            return Moves.SLOW, f"{text}, at {recent:.3g}/s against {before:.3g}/s before"
        return Moves.ADVANCING, text
    if frozen >= limit and not last.steps:
        return Moves.UNCLEAR, (
            f"{who}: the counters on this page move only when requests end; flat for {frozen:.0f} s says nothing"
        )
    if quiet is not None and frozen >= limits.stall_seconds:
        return Moves.UNCLEAR, (
            f"{who}: {name} unchanged for {frozen:.0f} s, not yet long at one advance per {ordinary:.0f} s"
        )
    return Moves.UNCLEAR, f"{who}: {counted(len(one.points), 'page')}, too few or too short to tell"


def _rates(context: Context, points: Sequence[Point]) -> tuple[float | None, float | None]:
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
    names = [name for name in names if not any(part in name for part in SECONDARY)] or names
    for name in names:
        rates = []
        for seconds, running, one, other in kept:
            step = other.steps.get(name, 0.0) - one.steps.get(name, 0.0)
            rates.append((step / seconds, step / seconds / running))
        if sum(rate > 0 for rate, _ in rates) < limits.steady_share * len(rates):
            continue
        kinds = tuple(zip(*rates, strict=True))  # a second, and a second and request
        pair = max(
            ((median(kind[-third:]), median(kind[:-third])) for kind in kinds),
            key=lambda pair: pair[0] / pair[1] if pair[1] > 0 else 1.0,
        )
        if best is None or pair[0] * best[1] > best[0] * pair[1]:
            best = pair
    return best if best is not None else (None, None)
