"""What is to be done in a simulated cluster: keys of objects that have changed, each once, and calls at a time."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class Work:
    """Thread-safe: writers of the store add to it, one loop takes from it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ready: OrderedDict[tuple[Any, Any], None] = OrderedDict()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()

    def add(self, controller: Any, key: Any) -> None:
        """One that waits already is not added a second time."""
        with self._changed:
            self._ready.setdefault((controller, key), None)
            self._changed.notify()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._timers, (self._clock() + max(0.0, seconds), next(self._count), call))
            self._changed.notify()

    def add_after(self, seconds: float, controller: Any, key: Any) -> None:
        self.after(seconds, lambda: self.add(controller, key))

    def take(self) -> Callable[[], None] | None:
        """What is due now: keys before timers, since a timer's truth is that of its moment."""
        with self._changed:
            if self._ready:
                (controller, key), _ = self._ready.popitem(last=False)
                return lambda: controller.reconcile(key)
            if self._timers and self._timers[0][0] <= self._clock():
                return heapq.heappop(self._timers)[2]
            return None

    @property
    def next_at(self) -> float | None:
        """When the next timer is due."""
        with self._changed:
            return self._timers[0][0] if self._timers else None

    def wait(self, seconds: float) -> None:
        """Of the machine's own time, until something is added."""
        with self._changed:
            if not self._ready:
                self._changed.wait(seconds)
