"""When RAS is asked next: not at once after a failure, and never so often that reading its reports costs much. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SECONDS = 600.0
"""Longest pause after failures: a service that comes back is found within ten minutes."""

SHARE = 0.002
"""Of one core, at most, for reading reports: a fifth of a watch's whole allowance (1 %)."""


@dataclass
class Pace:
    """`first`: seconds of the first pause after a failure; each further one doubles it, up to `most`."""

    first: float
    most: float = MOST_SECONDS
    share: float = SHARE
    _failures: int = 0
    _next_at: float = float("-inf")

    def due(self, now: float) -> bool:
        """Whether the pause is over at `now` (seconds of a clock that never jumps)."""
        return now >= self._next_at

    def failed(self, now: float) -> None:
        """Asked in vain."""
        pause = min(self.first * 2.0 ** min(self._failures, 32), max(self.most, self.first))
        self._failures += 1
        self._next_at = now + pause

    def went_well(self, now: float, cost: float = 0.0) -> None:
        """Answered. `cost`: processor seconds that reading the answer took."""
        self._failures = 0
        self._next_at = now + cost / self.share

    def reset(self) -> None:
        """Another incarnation: what failed was the one before."""
        self._failures = 0
        self._next_at = float("-inf")
