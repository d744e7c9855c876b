"""How far the load on a metrics page can be believed: some engines write it anew only every so often.

SGLang writes its gauges with each prefill and every 40 decode steps, and without a batch 30 s after the last time.
Until then a page shows requests that have ended long ago beside counters that stand, which is how a stop looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from rankmuster.diagnose.engine_series import Point, Series
from rankmuster.evidence.engine_table import LATE_LOAD
from rankmuster.model.engine import EngineStream

REQUESTS = "request"
"""Part of the names of counters of requests, among those that move when requests end."""


class LoadAge(Enum):
    PRESENT = "present"
    ENDED = "ended"  # it may be of before the last advance, and as many requests ended about then
    UNSEEN = "unseen"  # it may be old, and no advance was seen that it could be held against


def of(one: Series, whole: Series | None, advances: Sequence[int], page_gap: float) -> LoadAge:
    """`whole`: what the same pages count for all their engines together, None where there is one engine.

    `advances`: indexes of the points at which counters had grown; `page_gap`: seconds between two pages.
    """
    known = LATE_LOAD.get(one.engine)
    points = one.points
    if known is None or points[-1].time - points[advances[-1] if advances else 0].time >= known.load_age + page_gap:
        return LoadAge.PRESENT
    if not advances:
        return LoadAge.UNSEEN
    load = points[-1].stream.load or 0.0
    since = _written(points, advances, known.load_steps * load)
    counted = (one, whole) if whole is not None else (one,)
    ended = since is not None and max(_ends(every.points, since) for every in counted) >= load
    return LoadAge.ENDED if ended else LoadAge.PRESENT


def _written(points: Sequence[Point], advances: Sequence[int], most: float) -> float | None:
    """Time of the last page before which the load was surely written: the one before the last step, or one earlier
    where there were fewer steps since than `most`. None where no step was seen."""
    stepped = [index for index in advances if _stepped(points[index - 1].stream, points[index].stream) > 0]
    if not stepped:
        return None
    before = stepped[-1] - 1
    if _stepped(points[before].stream, points[before + 1].stream) < most:
        before = max(before - 1, 0)
    return points[before].time


def _ends(points: Sequence[Point], since: float) -> float:
    """Requests that have ended since the page of that time; what ends late in an interval is counted after it."""
    first = next((point.stream for point in points if point.time >= since), points[-1].stream)
    last = points[-1].stream
    return sum(value - first.ends.get(name, value) for name, value in last.ends.items() if REQUESTS in name)


def _stepped(before: EngineStream, after: EngineStream) -> float:
    """By how much the counter of steps or tokens rose that rose most."""
    return max((value - before.steps.get(name, value) for name, value in after.steps.items()), default=0.0)


def asked_from(points: Sequence[Point]) -> int:
    """Index of the first page of those at the end that all show a request; 0 where the last one shows none."""
    index = len(points) - 1
    if not points[index].stream.own_load:
        return 0
    while index > 0 and points[index - 1].stream.own_load != 0:
        index -= 1
    return index
