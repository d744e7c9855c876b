"""The scheduler of the drill's engine where requests are real: they come over the line from the front end."""

from __future__ import annotations

from rankmuster.drill.batch import MOST_WAITING, Batch
from rankmuster.drill.engine_line import Asked, Dropped, Line
from rankmuster.drill.traffic import Request


class EngineBatch(Batch):
    """`refused`: requests that found no place. `dropped`: whether the page is older than the last request that left
    without its answer. Who uses them empties them."""

    def __init__(self, line: Line, most_running: int) -> None:
        super().__init__(iter(()), most_running)
        self.refused: list[int] = []
        self.dropped = False
        self._line = line

    def _arrive(self, now: float) -> None:
        """A request that is dropped leaves at once, as vLLM aborts one without a client."""
        for message in self._line.waiting():
            if isinstance(message, Dropped):
                self._drop(message.number)
            elif isinstance(message, Asked):
                if len(self._waiting) < MOST_WAITING:
                    self._waiting.append(Request(message.number, now, message.prompt, message.tokens))
                else:
                    self.refused.append(message.number)

    def _drop(self, number: int) -> None:
        for one in [one for one in self._waiting if one.number == number]:
            self._waiting.remove(one)
        self._running = [one for one in self._running if one.request.number != number]
        self._gauges()
        self.dropped = True
