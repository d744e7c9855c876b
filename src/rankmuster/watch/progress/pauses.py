"""How long an instance pauses by habit: pages that show no advance under load, though nothing is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from rankmuster.watch.progress.loaded import Interval, Name
from rankmuster.watch.progress.settings import WatchSettings

MOST = 256
"""Pauses that are remembered: the newest."""

LONG = 0.9
"""The quantile that stands for a long one; the longest of all may have been a stop that ended."""


class Pauses:
    """Fed with every page's interval; bounded."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._since: dict[Name, tuple[float, bool]] = {}
        self._at: dict[Name, float] = {}
        self._seen: deque[float] = deque(maxlen=MOST)
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
            since, flat = self._since.get(one.name, (one.at, False))
            if one.advanced:
                if flat:
                    self._seen.append(one.at - since)
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
        return float(np.quantile(np.array(self._seen), LONG))
