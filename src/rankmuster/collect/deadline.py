"""A moment by which something has to be over, on a clock that can be moved in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds on a clock that never jumps (`time.monotonic`)."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at`: the moment in seconds of `clock`. It never moves; `within` gives an earlier one."""

    at: float
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.monotonic) -> Deadline:
        """The deadline `seconds` from now."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """Seconds left, never below 0: may be given to anything that takes a time-out."""
        return max(self.at - self.clock(), 0.0)

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.clock() >= self.at

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, self.clock() + seconds), self.clock)

    def before(self, seconds: float) -> Deadline:
        """A deadline `seconds` earlier than this one: what is left for the work when its end needs time of its own."""
        return Deadline(self.at - seconds, self.clock)
