"""When a group that ended by itself is started again: later each time, and not for ever. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
"""Doubled each time: a port or a GPU that is not free yet is free in seconds; what takes longer wants more."""


@dataclass
class BackOff:
    """At most `restarts` within `within` seconds."""

    restarts: int
    within: float
    _at: deque[float] = field(default_factory=deque)

    def next(self, now: float) -> float | None:
        """Seconds to wait before the next start, which counts from now on; None where there were enough."""
        while self._at and self._at[0] <= now - self.within:
            self._at.popleft()
        if len(self._at) >= self.restarts:
            return None
        wait = min(FIRST_SECONDS * 2.0 ** len(self._at), LONGEST_SECONDS)
        self._at.append(now)
        return wait
