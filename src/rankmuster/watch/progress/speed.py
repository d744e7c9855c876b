"""Slow, by this instance's own measure: tokens per second and request against what it did under the same load.

No fixed rate. Intervals are compared with earlier ones of about as many running requests, at least about as much
prompt work and contexts about as long, so that more load is not slowness; where none were like it, nothing is said.
Intervals that produced nothing are left out: they are a prefill or a stop, and those are judged elsewhere.

Memory: four columns of `memory` numbers (23 KB) and as many for a baseline, whatever happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankmuster.watch.progress.loaded import Interval, Name


@dataclass(frozen=True, slots=True)
class SpeedSettings:
    """What is slow, and for how long."""

    memory: int = 720
    """Intervals of its past that it is compared with: an hour at a look in 5 s."""

    recent: int = 24
    """Intervals that say what it does now: two minutes at 5 s, longer than any one prefill beside which decoding goes
    on."""

    least: int = 30
    """Fewest comparable intervals for a distribution; with fewer, a twentieth of them is one or none."""

    alike: float = 1.5
    """By how much numbers of running requests may differ to be the same load: the time of a decode step grows by less
    than a tenth from 8 requests to 12."""

    prompt_share: float = 0.5
    """Part of this interval's prompt tokens that a comparable one must have had: prefill takes time from decoding."""

    cache_margin: float = 0.05
    """Share of the KV cache by which a comparable interval may have had less in use, beside `alike`: each step reads
    all that is in use, and this much takes little beside the weights."""

    low: float = 0.05
    """Quantile of the distribution below which an interval is unusual: of usual ones one in twenty is."""

    ratio: float = 0.75
    """... and part of its median: a rate down by a quarter is what `diagnose` calls late (`late_share`)."""

    persistent: float = 0.75
    """Share of the recent intervals that must be low for it to be persistent."""

    over: float = 0.4
    """Share of the recent intervals below which a persistent slowness is over."""

    long: int = 120
    """Intervals over which a tail shows: ten minutes at 5 s."""

    tail: float = 0.2
    """Share of those that must be low for a tail: four times what is usual."""


DEFAULTS = SpeedSettings()


class SpeedKind(str, Enum):
    UNKNOWN = "unknown"  # too little of its past is like now
    USUAL = "usual"
    PERSISTENT = "persistent"
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Baseline:
    """A saved distribution: per interval the running requests, prompt tokens per second, share of the KV cache in use,
    tokens per second and request.

    All have the same length; the newest last.
    """

    running: tuple[float, ...]
    prompts: tuple[float, ...]
    cache: tuple[float, ...]
    rate: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SpeedView:
    """`now`, `usual`: median tokens per second and request of the recent intervals and of those they are compared with.

    `low_share`: of the recent intervals, those that are low. `reason`: one sentence.
    """

    kind: SpeedKind
    now: float | None
    usual: float | None
    low_share: float
    reason: str


class _Row(NamedTuple):
    running: float
    prompts: float
    cache: float
    rate: float


class _Ring:
    """Columns running, prompts, cache, rate of the last `size` intervals, shape (4, size)."""

    def __init__(self, size: int, start: Baseline | None = None) -> None:
        self._values = np.zeros((4, size))
        self._next = 0
        self._count = 0
        if start is not None:
            for row in zip(start.running, start.prompts, start.cache, start.rate, strict=True):
                self.add(_Row(*row))

    def add(self, row: _Row) -> None:
        self._values[:, self._next] = row
        self._next = (self._next + 1) % self._values.shape[1]
        self._count = min(self._count + 1, self._values.shape[1])

    def alike(self, row: _Row, settings: SpeedSettings) -> NDArray[np.float64]:
        """Rates of the intervals under such a load."""
        running, prompts, cache, rate = self._values[:, : self._count]
        same = (running <= row.running * settings.alike) & (running * settings.alike >= row.running)
        as_long = cache * settings.alike + settings.cache_margin >= row.cache
        found: NDArray[np.float64] = rate[same & as_long & (prompts >= row.prompts * settings.prompt_share)]
        return found

    def baseline(self) -> Baseline:
        order = np.arange(self._next - self._count, self._next) % self._values.shape[1]
        return Baseline(*(tuple(map(float, row)) for row in self._values[:, order]))


class Speed:
    """Fed with every page's interval. Survives restarts of the instance: a slower one is slow by its earlier self."""

    def __init__(self, settings: SpeedSettings = DEFAULTS, baseline: Baseline | None = None) -> None:
        self._settings = settings
        self._past = _Ring(settings.memory)
        self._saved = _Ring(settings.memory, baseline) if baseline is not None else None
        self._recent: deque[_Row] = deque()
        self._low: deque[bool] = deque(maxlen=settings.long)
        self._usual: deque[float] = deque(maxlen=settings.recent)
        self._at: dict[Name, float] = {}
        self._kind = SpeedKind.UNKNOWN

    def add(self, intervals: Iterable[Interval]) -> None:
        """Takes the newest interval of each stream; one that was taken before is passed over."""
        for one in intervals:
            if self._at.get(one.name) == one.at:
                continue
            if one.name not in self._at and len(self._at) >= self._settings.memory:
                continue
            self._at[one.name] = one.at
            if one.tokens and one.seconds > 0 and one.running >= 1:
                rate = one.tokens / one.seconds / one.running
                self._take(_Row(one.running, one.prompts / one.seconds, one.cache, rate))

    def _take(self, row: _Row) -> None:
        settings = self._settings
        flags = []
        for ring in (self._past, self._saved):
            like = ring.alike(row, settings) if ring is not None else np.zeros(0)
            if len(like) >= settings.least:
                low, median = np.quantile(like, (settings.low, 0.5))
                flags.append(row.rate < min(low, settings.ratio * median))
                self._usual.append(float(median))
        if flags:
            self._low.append(any(flags))
        self._recent.append(row)
        if len(self._recent) > settings.recent:
            oldest = self._recent.popleft()
            # What is slow now must not become what is usual.
            if self._kind in (SpeedKind.USUAL, SpeedKind.UNKNOWN):
                self._past.add(oldest)
        self._kind = self._judge()

    def _judge(self) -> SpeedKind:
        settings = self._settings
        flags = list(self._low)
        if len(flags) < settings.recent:
            return SpeedKind.UNKNOWN
        share = sum(flags[-settings.recent :]) / settings.recent
        limit = settings.over if self._kind is SpeedKind.PERSISTENT else settings.persistent
        if share >= limit:
            return SpeedKind.PERSISTENT
        if len(flags) * 2 >= settings.long and sum(flags) / len(flags) >= settings.tail:
            return SpeedKind.TAIL
        return SpeedKind.USUAL

    def view(self) -> SpeedView:
        """What the intervals so far say."""
        settings = self._settings
        recent = [row.rate for row in self._recent]
        now = float(np.median(recent)) if recent else None
        usual = float(np.median(list(self._usual))) if self._usual else None
        flags = list(self._low)[-settings.recent :]
        share = sum(flags) / len(flags) if flags else 0.0
        if self._kind is SpeedKind.UNKNOWN or now is None or usual is None:
            return SpeedView(SpeedKind.UNKNOWN, now, usual, share, "too little was seen under such a load to tell")
        reason = f"{now:.3g} tokens a second and request, usually {usual:.3g} under such a load"
        if self._kind is SpeedKind.PERSISTENT:
            reason += f"; {share:.0%} of the last {len(flags)} intervals are low"
        if self._kind is SpeedKind.TAIL:
            reason += f"; {sum(self._low) / len(self._low):.0%} of the last {len(self._low)} intervals are low"
        return SpeedView(self._kind, now, usual, share, reason)

    def baseline(self) -> Baseline:
        """What to save, so that the next watch knows what is usual."""
        return self._past.baseline()
