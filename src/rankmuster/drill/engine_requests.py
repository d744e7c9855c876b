"""The requests of an engine's front end: who waits for what, while one thread hears what the scheduler says."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from rankmuster.drill.engine_line import Asked, Dropped, Line, Stepped
from rankmuster.drill.engine_record import Record, What


@dataclass(frozen=True, slots=True)
class Token:
    """`step`: in which it was made. `good`: the sum over all ranks was right. `last`: no more come."""

    step: int
    good: bool
    last: bool


class Turned(Exception):
    """The engine does not serve this request; says why."""


class Requests:
    """One of a front end. A request waits without an end, as with vLLM: a hang shows nowhere in the front end."""

    def __init__(self, line: Line, record: Record) -> None:
        self._line, self._record = line, record
        self._waiting: dict[int, queue.SimpleQueue[Token | None]] = {}
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    def ask(self, prompt: int, tokens: int, name: str) -> tuple[int, Iterator[Token]]:
        """(its number, its tokens as they come). `name`: the client's. Raises Turned, as the tokens may."""
        number = next(self._numbers)
        self._record.write(What.RECEIVED, number=number, name=name)
        coming: queue.SimpleQueue[Token | None] = queue.SimpleQueue()
        self._waiting[number] = coming
        try:
            taken = not self._ended.is_set() and self._line.offer(Asked(number, prompt, tokens))
        except OSError:
            taken = False
        if not taken:
            del self._waiting[number]
            raise Turned("the scheduler takes no request now")
        return number, self._tokens(coming)

    def leave(self, number: int) -> None:
        """Nobody waits for it any more."""
        if self._waiting.pop(number, None) is not None:
            try:
                self._line.offer(Dropped(number))
            except OSError:
                return

    @staticmethod
    def _tokens(coming: queue.SimpleQueue[Token | None]) -> Iterator[Token]:
        while True:
            token = coming.get()
            if token is None:
                raise Turned("the scheduler has no place for it, or has ended")
            yield token
            if token.last:
                return

    def _hear(self) -> None:
        try:
            while True:
                for message in self._line.waiting(3600.0):
                    if isinstance(message, Stepped):
                        self._stepped(message)
        except (EOFError, OSError) as error:
            self._record.write(What.ENDED, note=str(error))
        self._ended.set()
        for number in list(self._waiting):
            self._give(number, None)

    def _stepped(self, step: Stepped) -> None:
        numbers = [number for number, _, _ in step.came]
        self._record.write(What.TOKENS, step=step.step, good=step.good, came=numbers)
        for number, _, last in step.came:
            self._give(number, Token(step.step, step.good, last))
        for number in step.refused:
            self._give(number, None)

    def _give(self, number: int, token: Token | None) -> None:
        coming = self._waiting.get(number)
        if coming is None:
            return
        if token is None or token.last:
            self._waiting.pop(number, None)
        coming.put(token)
