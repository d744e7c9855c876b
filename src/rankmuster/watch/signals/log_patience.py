"""Looks at files of servers that may be gone, again and again for days: those that still hang are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rankmuster.collect.bounded import Done, each
from rankmuster.collect.deadline import Deadline

T = TypeVar("T")
R = TypeVar("R")

SECONDS = 1.0
"""For one file or folder; disks that are alive take milliseconds."""
LEAST_SECONDS = 0.02
"""Left of the time, below which nothing is begun: it would count as hanging."""
MOST_HANGING = 8
"""Calls that may hang at once, each in a thread that cannot be ended, before none is begun any more."""


class Patience:
    """`bounded.each` for one signal. A disk that stood still for a second and goes on again counts no longer."""

    def __init__(self) -> None:
        self._running: set[object] = set()

    @property
    def spent(self) -> bool:
        """Whether so many calls hang that no further one may be begun."""
        return len(self._running) > MOST_HANGING

    def each(self, items: Sequence[T], work: Callable[[T], R], deadline: Deadline) -> Done[T, R]:
        """`work` of each item; all are skipped where patience is spent, or no time is left to begin anything."""
        if self.spent or deadline.remaining() < LEAST_SECONDS:
            return Done((), (), tuple(items))

        def counted(item: T) -> R:
            token = object()
            self._running.add(token)
            try:
                return work(item)
            finally:
                self._running.discard(token)

        return each(items, counted, patience=SECONDS, total=deadline.remaining())
