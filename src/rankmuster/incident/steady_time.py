"""Unix time that nobody sets while an incident runs.

Deadlines of steps are unix times, so that the next runner can keep to them. A clock that is set by an hour in between
would let all of them pass at once, and a group would be ended for nothing but that.
"""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.collect.deadline import Clock

SET_SECONDS = 1.0
"""A difference from the host's clock up to this is none: the clock is only steered, or was read a little later."""


class SteadyTime:
    """What `unix_now` says at the beginning, and from then on as `clock` (monotonic seconds) goes."""

    def __init__(self, unix_now: Callable[[], float], clock: Clock) -> None:
        self._unix_now, self._clock = unix_now, clock
        self._offset = unix_now() - clock()

    def __call__(self) -> float:
        return self._clock() + self._offset

    def of(self, unix: float) -> float:
        """The same moment, of a time that somebody else has read from the host's clock a moment ago."""
        ahead = self() - self._unix_now()
        return unix if abs(ahead) <= SET_SECONDS else unix + ahead
