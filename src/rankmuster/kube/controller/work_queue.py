"""What is to be reconciled: each key once, however often it is asked for, with a growing pause after a failure.

Bounded by construction: it never holds more keys than there are objects, and a key that is worked on waits aside.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from rankmuster.collect.deadline import Clock

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE = 0.5
"""Seconds after a first failure; doubled with each further one."""

LONGEST_PAUSE = 60.0


@dataclass
class _Entry:
    due: float
    failures: int = 0
    working: bool = False
    again: float | None = None


@dataclass(order=True)
class _Turn(Generic[Key]):
    due: float
    number: int
    key: Key = field(compare=False)


class WorkQueue(Generic[Key]):
    """Thread-safe. `clock`: monotonic seconds."""

    def __init__(self, clock: Clock, *, jitter: Callable[[], float] = lambda: 1.0) -> None:
        self._clock, self._jitter = clock, jitter
        self._entries: dict[Key, _Entry] = {}
        self._turns: list[_Turn[Key]] = []
        self._numbers = count()
        self._more = threading.Condition()
        self.deepest = 0

    def __len__(self) -> int:
        with self._more:
            return len(self._entries)

    def add(self, key: Key, after: float = 0.0) -> None:
        """Due in so many seconds, or earlier where it is due earlier already."""
        with self._more:
            due = self._clock() + after
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = _Entry(due)
                self.deepest = max(self.deepest, len(self._entries))
            elif entry.working:
                entry.again = due if entry.again is None else min(entry.again, due)
                return
            elif due >= entry.due:
                return
            else:
                entry.due = due
            self._push(key, due)

    def take(self, wait: float = 0.0) -> Key | None:
        """A key that is due, which is worked on from now until `done` or `failed`; None where there is none in time."""
        with self._more:
            end = self._clock() + wait
            while True:
                now = self._clock()
                while self._turns and self._turns[0].due <= now:
                    turn = heapq.heappop(self._turns)
                    entry = self._entries.get(turn.key)
                    if entry is not None and not entry.working and entry.due == turn.due:
                        entry.working = True
                        return turn.key
                until = min(end, self._turns[0].due) if self._turns else end
                if until <= now and end <= now:
                    return None
                self._more.wait(max(until - now, 0.0))

    def done(self, key: Key, again: float | None = None) -> None:
        """It is as wanted. `again`: seconds after which it is to be looked at anyway."""
        self._ended(key, again, failed=False)

    def failed(self, key: Key) -> float:
        """It is not; gives the seconds after which it is tried again."""
        return self._ended(key, None, failed=True) or 0.0

    def drop(self, key: Key) -> None:
        """The object is gone."""
        with self._more:
            entry = self._entries.get(key)
            if entry is not None and not entry.working:
                del self._entries[key]

    def _ended(self, key: Key, again: float | None, *, failed: bool) -> float | None:
        with self._more:
            entry = self._entries.get(key)
            if entry is None:
                return None
            now = self._clock()
            entry.working = False
            entry.failures = entry.failures + 1 if failed else 0
            dues = [] if again is None else [now + again]
            pause = None
            if failed:
                pause = min(FIRST_PAUSE * 2.0 ** (entry.failures - 1), LONGEST_PAUSE) * self._jitter()
                dues.append(now + pause)
            elif entry.again is not None:
                dues.append(entry.again)  # what is asked for while it fails waits for the pause, too
            entry.again = None
            if not dues:
                del self._entries[key]
                return None
            entry.due = min(dues)
            self._push(key, entry.due)
            return pause

    def _push(self, key: Key, due: float) -> None:
        heapq.heappush(self._turns, _Turn(due, next(self._numbers), key))
        self._more.notify()
