"""How long an instance pauses by habit: pages that show no advance under load, though nothing is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from rankmuster.evidence.engine_table import LATE_LOAD
from rankmuster.watch.progress.loaded import Interval, Name
from rankmuster.watch.progress.settings import WatchSettings

MOST = 256
"""Pauses that are remembered: the newest, and of `habit_seconds` under load."""

LONG = 0.9
"""The quantile that stands for a long one; the longest of all may have been a stop that ended."""


class Pauses:
    """Fed with every page's interval; bounded."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._since: dict[Name, tuple[float, bool]] = {}
        self._at: dict[Name, float] = {}
        self._seen: deque[tuple[float, float]] = deque(maxlen=MOST)
        self._loaded = 0.0  # seconds under load, of all streams together
        self._habit = 0.0

    def add(self, intervals: Iterable[Interval]) -> None:
        """Takes the newest interval of each stream; one that was taken before is passed over."""
        for one in intervals:
            if self._at.get(one.name) == one.at:
                continue
            if len(self._at) >= self._settings.most_servers and one.name not in self._at:
                continue
            self._at[one.name] = one.at
            if not one.loaded:
                self._since.pop(one.name, None)
                continue
            self._loaded += one.seconds
            if self._seen and self._loaded - self._seen[0][0] > self._settings.habit_seconds:
                self._seen.popleft()
                self._habit = self._long()
            since, flat = self._since.get(one.name, (one.at, False))
            if one.advanced:
                known = LATE_LOAD.get(one.name[1])
                # Where load stays on the page for a while after the last request, that is rest and no pause.
                if flat and one.at - since > (known.load_age if known is not None else 0.0):
                    self._seen.append((self._loaded, one.at - since))
                    self._habit = self._long()
                self._since[one.name] = (one.at, False)
            else:
                self._since[one.name] = (since, True)

    @property
    def habit(self) -> float:
        """Seconds of the long ones among its pauses; 0 where too few were seen to speak of a habit."""
        return self._habit

    def _long(self) -> float:
        if len(self._seen) < self._settings.habit_gaps:
            return 0.0
        return float(np.quantile(np.array([length for _, length in self._seen]), LONG))
