"""Time of a simulated cluster: virtual (it jumps to what is due next) or the machine's own. Both are called for now."""

from __future__ import annotations

import threading
import time

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z: where virtual time begins."""


class VirtualClock:
    """Stands still until it is moved; never goes back."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self.advance_to(self._now + seconds)

    def advance_to(self, at: float) -> None:
        with self._lock:
            self._now = max(self._now, at)


class RealClock:
    """The machine's, for nodes whose containers are processes."""

    def __call__(self) -> float:
        return time.time()
