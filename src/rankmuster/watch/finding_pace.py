"""When a node is searched for instances: soon where one is missing, rarely where nothing changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.004
"""Of one core, at most, for searches: a search of 0.1 s comes every 25 s at most. The whole watch has 0.01."""

MOST_BY_COST = 120.0
"""Seconds by which the cost of a search may put off the next: one that took long for stuck processes says little."""

REST_SECONDS = 60.0
"""Between two searches when the first quiet one is over; doubled up to MOST_SECONDS while nothing changes."""

MOST_SECONDS = 300.0
"""Between two searches of a quiet node: for what no new process announces (a program that becomes another)."""


@dataclass
class SearchPace:
    """`soon`: seconds between two searches while an instance is missing, or has just changed."""

    soon: float
    share: float = SHARE
    _step: float = 0.0
    _last: float = float("-inf")
    _floor: float = 0.0  # seconds that must lie between two, by what the last one cost
    _next: float = float("-inf")

    def due(self, now: float) -> bool:
        """Whether to search at `now` (seconds of a clock that never jumps)."""
        return now >= self._next

    def searched(self, now: float, cost: float, *, settled: bool) -> None:
        """A search has ended. `cost`: processor seconds. `settled`: it found what was known, and nobody is missing."""
        self._last = now
        self._floor = min(cost / self.share, MOST_BY_COST)
        if not settled:
            self._step = self.soon
        elif self._step < REST_SECONDS:
            self._step = min(max(self._step * 2, self.soon), REST_SECONDS)
        else:
            self._step = min(self._step * 2, MOST_SECONDS)
        self._next = now + max(self._step, self._floor)

    def hurry(self) -> None:
        """Something has changed: the next search comes as soon as it may, and the steps begin anew."""
        self._step = self.soon
        self._next = min(self._next, self._last + max(self.soon, self._floor))
