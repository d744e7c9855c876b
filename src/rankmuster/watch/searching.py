"""The search for instances as one more thing that is asked each period: reading /proc of a stuck process may block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rankmuster.collect.deadline import Deadline
from rankmuster.model.plane import Plane
from rankmuster.watch.finding import Finder
from rankmuster.watch.signals.signal import Heard, Said

NODE = ""
"""The owner of signals that are the node's; no instance has an empty name."""


class Search:
    """A `Signal` whose observations are `finding.Changes`. `period`: seconds between two cheap looks."""

    name = "search"
    plane = Plane.PLATFORM
    blind_to = "processes that this program may not see"

    def __init__(
        self, finder: Finder, clock: Callable[[], float], unix_now: Callable[[], float], period: float
    ) -> None:
        self.period = period
        self._finder = finder
        self._clock = clock
        self._unix_now = unix_now
        self._first = True

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        """What has changed, if anything has; at the first time that there is nothing, too."""
        changes = self._finder.look(deadline)
        first, self._first = self._first, False
        if changes.any or changes.notes or first:
            yield Heard(self._clock(), self._unix_now(), changes)

    def close(self) -> None:
        """Nothing is held."""
