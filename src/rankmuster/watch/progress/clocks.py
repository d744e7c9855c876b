"""Ages by the monotonic clock, stamps by the wall clock as it is now: a wall clock that is set moves what was seen."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from rankmuster.model.stamp import unix

T = TypeVar("T")


@dataclass(slots=True)
class Clocks:
    """`offset`: unix seconds minus monotonic seconds, None before the first look. `jumps`: how often it was set."""

    jump_seconds: float
    offset: float | None = None
    jumps: int = 0
    _newest: float = float("-inf")

    def tell(self, now: float, unix_now: float) -> bool:
        """Takes both clocks as read together; True when the wall clock was set since, and stamps must follow.

        A reading older than the newest says nothing of the clock as it is now.
        """
        if now < self._newest:
            return False
        self._newest = now
        offset = unix_now - now
        if self.offset is None:
            self.offset = offset
            return False
        if abs(offset - self.offset) <= self.jump_seconds:
            return False
        self.offset = offset
        self.jumps += 1
        return True

    def unix(self, at: float) -> float:
        """Unix seconds of a monotonic time, by the wall clock as it is now."""
        return at + (self.offset or 0.0)


def stamped(observation: T, at: float) -> T:
    """The same line, written at `at` (unix seconds): one that is followed was written when it was read.

    Lines carry stamps without year or zone; the time of reading is as good to a second, and needs no anchor.
    """
    origin: Any = getattr(observation, "origin", None)
    if not is_dataclass(origin) or isinstance(origin, type) or "stamp" not in {field.name for field in fields(origin)}:
        return observation
    return replace(observation, origin=replace(origin, stamp=unix(at)))  # type: ignore[type-var]
