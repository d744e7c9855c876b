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


MOST_VAIN_SECONDS = 120.0
"""Longest wait after a new process: where a probe in Python starts every few seconds, not each of them is a reason."""


@dataclass
class SearchPace:
    """`soon`: seconds between two searches while an instance is missing, or has just changed."""

    soon: float
    share: float = SHARE
    _step: float = 0.0
    _last: float = float("-inf")
    _floor: float = 0.0  # seconds that must lie between two, by what the last one cost
    _next: float = float("-inf")
    _hurried: bool = False
    _vain: int = 0  # searches in a row that were made for a new process, and found nothing new

    def due(self, now: float) -> bool:
        """Whether to search at `now` (seconds of a clock that never jumps)."""
        return now >= self._next

    def searched(self, now: float, cost: float, *, settled: bool, young: bool = False) -> None:
        """A search has ended. `cost`: processor seconds. `settled`: it found what was known, and nobody is missing.
        `young`: an instance is, of which more will be known soon (its GPUs, its server)."""
        self._last = now
        self._floor = min(cost / self.share, MOST_BY_COST)
        self._vain = self._vain + 1 if settled and self._hurried else 0 if not settled else self._vain
        self._hurried = False
        if not settled:
            self._step = self.soon
        elif self._step < REST_SECONDS or young:
            self._step = min(max(self._step * 2, self.soon), max(REST_SECONDS, self.soon))
        else:
            self._step = min(self._step * 2, MOST_SECONDS)
        self._next = now + max(self._step, self._floor)

    def changed(self) -> None:
        """An instance has changed: the next search comes as soon as it may, and the steps begin anew."""
        self._vain, self._step = 0, self.soon
        self._next = min(self._next, self._last + max(self.soon, self._floor))

    def stirred(self) -> None:
        """A process has come that may be a new instance's: soon, but later and later where such were nothing."""
        self._hurried = True
        wait = min(self.soon * 2.0 ** min(self._vain, 16), max(MOST_VAIN_SECONDS, self.soon))
        self._next = min(self._next, self._last + max(wait, self._floor))
