"""How often and after how long a call is made again, within its deadline, and how much of an answer is read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline

FIRST_PAUSE = 0.25
"""Seconds before the second attempt; then twice as long each time. client-go begins with 1 s for watches; an incident
has seconds."""

LONGEST_PAUSE = 8.0
MOST_ATTEMPTS = 8
"""With the pauses above 24 s: longer than an API server takes to change its leader, shorter than a step."""

ATTEMPT_SECONDS = 10.0
"""For one attempt: an API server answers in milliseconds, or hangs; its own time-out of 60 s is too long for us."""

LIST_SECONDS = 30.0
"""For one page of a list, which may be megabytes."""

MOST_BYTES = 64 << 20
"""Of one answer: a page of 250 pods of a GPU workload has up to 10 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`jitter`: 0 to 1, uniform; `sleep`: of seconds; `wall`: unix seconds. Injected in tests."""

    first: float = FIRST_PAUSE
    longest: float = LONGEST_PAUSE
    most: int = MOST_ATTEMPTS
    attempt_seconds: float = ATTEMPT_SECONDS
    list_seconds: float = LIST_SECONDS
    most_bytes: int = MOST_BYTES
    jitter: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time

    def pause(self, attempt: int, wanted: float | None, deadline: Deadline) -> bool:
        """Waits after attempt number `attempt` (from 1): what the server wants and a little more, or half to all of
        our own pause. False, without waiting, where there is no other attempt: they are used up, or there is no time.
        """
        if attempt >= self.most:
            return False
        own = min(self.first * 2 ** (attempt - 1), self.longest)
        seconds = own * (0.5 + self.jitter() / 2) if wanted is None else wanted + self.first * self.jitter()
        if seconds >= deadline.remaining():
            return False
        self.sleep(seconds)
        return True
