"""The serving engine's own progress: load against counters that really move (engine facts, section 1e)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from rankmuster.diagnose import engine_load, engine_rates
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_load import LoadAge
from rankmuster.diagnose.engine_series import Point, Series, changed, grew, series
from rankmuster.diagnose.finding import counted
from rankmuster.diagnose.memo import once
from rankmuster.diagnose.middle import median
from rankmuster.evidence.engine_page import WHOLE
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
    `held_elsewhere`: the only requests there are wait for another instance. `first_request`: nothing has come of it
    yet, and it has its time. `paused`: on purpose.
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
    held_elsewhere: bool = False
    first_request: bool = False
    paused: bool = False


MOST_NAMED = 3
"""Engines that advance beside one that has stopped, named in a sentence."""

MOMENT = 0.05
"""Seconds that are no time to speak of."""

ORDER = (Moves.STALLED, Moves.SLOW, Moves.UNCLEAR, Moves.ADVANCING, Moves.IDLE)
"""The worst first. Engines of one instance share its weights and its fate: one that stands holds up its requests."""


@once
def states(context: Context) -> tuple[EngineState, ...]:
    """Every engine that pages still tell of at their end; data-parallel replicas have one each."""
    limits = context.limits
    every = series(context)
    # What a page counts for all its engines together is none of them.
    whole = {one.identity[:2]: one for one in every if one.identity[2] == WHOLE and not _tells(one)}
    parts = {one.identity[:2] for one in every if one.identity[2] != WHOLE}
    engines = [one for one in every if whole.get(one.identity[:2]) is not one or one.identity[:2] not in parts]
    found = [_state(context, one, whole.get(one.identity[:2])) for one in engines]
    end = max((state.last_page for state in found), default=0.0)
    # A server that was scraped no longer when others still were says nothing of the end.
    return tuple(
        state
        for state in found
        if end - state.last_page <= max(limits.stale_page_seconds, limits.stale_page_gaps * state.page_gap)
    )


def _tells(one: Series) -> bool:
    """Whether its pages tell of load or steps, and not of requests that have ended alone."""
    last = one.points[-1].stream
    return last.running is not None or bool(last.steps)


@once
def assess(context: Context) -> EngineState | None:
    """The state of the worst engine that pages still tell of at their end; None without pages that carry a time."""
    current = states(context)
    worst = min(current, key=_badness, default=None)
    if worst is None or worst.moves is not Moves.STALLED:
        return worst
    others = [state.name for state in current if state.moves in (Moves.ADVANCING, Moves.SLOW)]
    if not others:
        return worst
    who = ", ".join(others[:MOST_NAMED]) + (f" and {len(others) - MOST_NAMED} more" if others[MOST_NAMED:] else "")
    return replace(worst, text=f"{worst.text}; meanwhile {who} {'advance' if len(others) > 1 else 'advances'}")


def _badness(state: EngineState) -> tuple[int, bool]:
    """What has a reason to stand still does not hide that others advance."""
    excused = state.moves is Moves.UNCLEAR and (state.held_elsewhere or state.first_request)
    return ORDER.index(Moves.ADVANCING if excused else state.moves), excused


def stopped(context: Context) -> bool:
    """Whether the engine's counters or a watchdog show that work which should move does not."""
    state = assess(context)
    return bool(context.timeouts) or (state is not None and state.moves is Moves.STALLED)


def _liveliest(points: Sequence[Point]) -> str:
    """The counter that moved most over these pages, steps before ends."""
    first, last = points[0].stream, points[-1].stream
    for before, after in ((first.steps, last.steps), (first.ends, last.ends)):
        if after:
            moved = {name: abs(value - before.get(name, value)) for name, value in after.items()}
            # Tokens that were generated say more than prompts that were taken in, of those that moved and of the rest.
            return max(moved, key=lambda name: (moved[name] > 0, not engine_rates.follows_arrivals(name), moved[name]))
    return "its counters"


def _state(context: Context, one: Series, whole: Series | None) -> EngineState:
    limits = context.limits
    points = one.points
    last = points[-1].stream
    advances = [index for index in range(1, len(points)) if grew(points[index - 1].stream, points[index].stream)]
    since = advances[-1] if advances else 0
    # A reset is no advance, and no stop either: what stands still is told from there on. So it is from the page with
    # which requests came: before, counters stood still for want of them.
    flat_from = max(since, one.start, engine_load.asked_from(points))
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
    recent, before = engine_rates.rates(context, points[one.start :])
    gap = median(later.time - earlier.time for earlier, later in pairwise(points)) if len(points) > 1 else 0.0
    load = engine_load.of(one, whole, advances, gap)
    flat = Flat(frozen, len(points) - flat_from, quiet if advances else None, ordinary, load)
    moves, text = _moves(context, one, flat, (recent, before))
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
        gap,
        quiet <= max(limits.tail_seconds, limits.late_gaps * ordinary),
        one.name,
        one.identity,
        points[since - 1].time if advances else None,
        bool(last.load) and not last.own_load,
        frozen < limits.first_step_seconds and not _produced(last),
        last.paused,
    )


def _gaps(points: Sequence[Point], advances: Sequence[int]) -> list[float]:
    """Seconds between two advances, where requests were there all the time in between."""
    return [
        points[later].time - points[earlier].time
        for earlier, later in pairwise(advances)
        if all(point.stream.own_load != 0 for point in points[earlier:later])
    ]


def _limit(context: Context, ordinary: float) -> float:
    """Seconds without any advance under load from which it has stopped."""
    return max(context.limits.stall_seconds, context.limits.stall_gaps * ordinary)


@dataclass(frozen=True, slots=True)
class Flat:
    """How long counters stood still at the end.

    `seconds`: under load; `pages`: as many show it. `quiet`: seconds since the last advance, None for none. `ordinary`:
    between two advances. `load`: how far the load on the page can be believed.
    """

    seconds: float
    pages: int
    quiet: float | None
    ordinary: float
    load: LoadAge


def _moves(context: Context, one: Series, flat: Flat, rate: tuple[float | None, float | None]) -> tuple[Moves, str]:
    """What one engine does, with words. `rate`: now, before."""
    limits = context.limits
    last = one.points[-1].stream
    frozen, quiet, ordinary = flat.seconds, flat.quiet, flat.ordinary
    limit = _limit(context, ordinary)
    name = _liveliest(one.points[one.start :])
    who = one.name
    if last.paused:
        return Moves.IDLE, f"{who} is paused or asleep on purpose"
    # A page without the series of running requests (a cut copy) does not say that none runs.
    if last.running is not None and not last.load:
        return Moves.IDLE, f"{who}: no request running or waiting"
    if len(one.resets) > limits.most_resets:
        times = counted(len(one.resets), "time")
        return Moves.UNCLEAR, f"{who}: its counters fell {times}, as pages of several servers under one name do"
    if last.load and not last.own_load:
        held = counted(round(last.load), "request")
        return Moves.UNCLEAR, f"{who}: {held} waiting for another instance (KV cache, grammar), and none running"
    if last.load is not None and frozen >= limit and last.steps and flat.pages >= limits.stall_pages:
        if flat.load is LoadAge.ENDED:
            text = "as many have ended as its load shows, which is written anew only some time after the last step"
            return Moves.IDLE, f"{who}: {name} unchanged for {frozen:.0f} s, and {text}"
        if frozen < limits.first_step_seconds and not _produced(last):
            return Moves.UNCLEAR, f"{who}: {_held(last)}, its first, for {frozen:.0f} s: kernels may be compiled for it"
        if flat.load is LoadAge.UNSEEN and limits.patient:
            return Moves.UNCLEAR, f"{who}: {_held(last)}, or some time ago, for its load is not written anew each step"
        return Moves.STALLED, f"{who}: {_held(last)} and {name} unchanged for {frozen:.0f} s"
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


def _produced(stream: EngineStream) -> bool:
    """Whether anything has come of this engine since it was started."""
    return any(value > 0 for counters in (stream.steps, stream.ends) for value in counters.values())


def _held(stream: EngineStream) -> str:
    """Which requests there are, in words."""
    if not stream.running and stream.waiting:
        return f"no request running, {round(stream.waiting)} waiting"
    return f"{counted(round(stream.running or 0.0), 'request')} running"
