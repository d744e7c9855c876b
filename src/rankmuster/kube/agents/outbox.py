"""Bundles that wait to leave the pod: handed to the node's agent one after the other, again and again.

An agent may be away for a minute (it is updated), and the pod may be told to end at any moment: then what is still here
gets what is left of the grace period.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Clock, Deadline

ROUND_SECONDS = 60.0
"""For one bundle, before the next one gets its turn."""

PAUSE_SECONDS = 15.0
"""After a round in which something could not be handed over."""

MOST = 8
"""Bundles that wait; the oldest is given up for a ninth."""


@dataclass(frozen=True, slots=True)
class Letter:
    """`bundle`: a file of the outbox's own, taken away at the end."""

    bundle: Path
    name: str
    sha256: str
    size: int


class Outbox:
    """`hand`: hands one over; empty when it is there, else why it is not. A thread of its own from the first one on."""

    def __init__(self, hand: Callable[[Letter, Deadline], str], say: Callable[[str], None], clock: Clock) -> None:
        self._hand = hand
        self._say = say
        self._clock = clock
        self._changed = threading.Condition()
        self._letters: list[Letter] = []
        self._until: Deadline | None = None
        self._thread: threading.Thread | None = None

    def put(self, letter: Letter) -> None:
        """Takes it over."""
        with self._changed:
            self._letters.append(letter)
            if len(self._letters) > MOST:
                self._gone(self._letters[0], "given up: too many wait for the agent")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, deadline: Deadline) -> None:
        """Returns when all are handed over, or at the deadline."""
        with self._changed:
            self._until = deadline
            self._changed.notify_all()
            while self._letters and not deadline.passed:
                self._changed.wait(min(deadline.remaining(), 0.5))
            for letter in list(self._letters):
                self._gone(letter, "not handed over when the pod ended")

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._letters:
                    self._changed.wait()
                letter, until = self._letters[0], self._until
            deadline = Deadline.after(ROUND_SECONDS, self._clock) if until is None else until
            why = self._hand(letter, deadline)
            with self._changed:
                if letter not in self._letters:
                    continue
                if not why:
                    self._gone(letter, "with the node's agent")
                    continue
                self._letters.remove(letter)
                self._letters.append(letter)
                self._say(f"bundle {letter.name} is not with the node's agent yet: {why}")
                if self._until is None:
                    self._changed.wait_for(lambda: self._until is not None, PAUSE_SECONDS)
                elif self._until.passed:
                    return

    def _gone(self, letter: Letter, how: str) -> None:
        self._letters.remove(letter)
        self._say(f"bundle {letter.name} is {how}")
        with contextlib.suppress(OSError):
            letter.bundle.unlink()
        self._changed.notify_all()
