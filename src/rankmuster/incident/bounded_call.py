"""A call of an actuator that is waited for until its deadline and no longer, whatever it does; never two at once.

A thread that does not come back cannot be ended. It is left behind, its actuator stays taken until it has returned, and
what it still does is looked for at the end of the incident.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rankmuster.collect.deadline import Clock, Deadline

GRACE = 0.25
"""Seconds that an answer may be late: an actuator that keeps to its deadline answers just about then."""

TICK = 0.05
"""Seconds between two looks at whether the step was abandoned."""

MOST_TRACE = 6_000
"""Characters of a traceback."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Called(Generic[T]):
    """What came of a call. `answer`: None where none came; then `late`, or `raised` with `trace`, says why.

    `busy`: it was not begun, since an earlier call of that actuator has not returned; which one, and since when.
    """

    answer: T | None = None
    late: bool = False
    raised: str | None = None
    trace: str = ""
    busy: str | None = None


class Hold:
    """An actuator that is taken, until its holder has finished and no call of it runs any more."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free
        self._lock = threading.Lock()
        self._running, self._finished = 0, False

    def enter(self) -> None:
        with self._lock:
            self._running += 1

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            over = self._finished and self._running == 0
        if over:
            self._free()

    def finish(self) -> None:
        """Of its holder, once."""
        with self._lock:
            over = not self._finished and self._running == 0
            self._finished = True
        if over:
            self._free()


class Slots:
    """Which actuators are being acted through. Looks are not counted: they change nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: dict[str, tuple[str, float]] = {}

    def take(self, slot: str, what: str, deadline: Deadline, given_up: Callable[[], bool]) -> Hold | str:
        """Waits for it until `deadline`; else says who has it."""
        while True:
            with self._lock:
                holder = self._taken.get(slot)
                if holder is None:
                    self._taken[slot] = (what, self._clock())
                    return Hold(lambda: self._give(slot))
            if deadline.passed or given_up():
                return f"{holder[0]}, since {self._clock() - holder[1]:.0f} s"
            time.sleep(min(TICK, max(deadline.remaining(), 0.001)))

    def _give(self, slot: str) -> None:
        with self._lock:
            self._taken.pop(slot, None)

    def unreturned(self) -> tuple[str, ...]:
        """Calls that have not come back, in words."""
        with self._lock:
            return tuple(f"{what}, for {self._clock() - since:.0f} s" for what, since in self._taken.values())


def bounded(
    call: Callable[[Deadline], T], deadline: Deadline, given_up: Callable[[], bool], hold: Hold | None = None
) -> Called[T]:
    """Calls it in a thread and waits until `deadline` and a little more. `hold`: held until it has returned."""
    found: list[Called[T]] = []
    ended = threading.Event()

    def run() -> None:
        try:
            found.append(Called(answer=call(deadline)))
        except BaseException as error:  # whatever an actuator raises is its failure, never the runbook's
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            found.append(Called(raised=f"{type(error).__name__}: {error}", trace=trace[-MOST_TRACE:]))
        finally:
            if hold is not None:
                hold.leave()
            ended.set()

    if hold is not None:
        hold.enter()
    try:
        threading.Thread(target=run, name="incident-call", daemon=True).start()
    except RuntimeError as error:  # no thread is to be had
        if hold is not None:
            hold.leave()
        return Called(raised=f"{type(error).__name__}: {error}")
    until = Deadline(deadline.at + GRACE, deadline.clock)
    while not ended.wait(min(TICK, max(until.remaining(), 0.001))):
        if until.passed or given_up():
            return Called(late=True)
    return found[0]
