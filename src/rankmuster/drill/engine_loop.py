"""A rank of the drill's engine: the serving loop with requests that somebody really sent, and waits for."""

from __future__ import annotations

from rankmuster.drill.batch import Batch
from rankmuster.drill.engine_batch import EngineBatch
from rankmuster.drill.engine_line import Line, Stepped
from rankmuster.drill.serve_loop import IDLE_POLL, ServeLoop

TOLERANCE = 0.05
"""Of an activation that every rank had its part in: 1, but for rounding (a third in bfloat16 is off by a thousandth).
A part that is missing or comes twice is off by a quarter with four ranks."""


class EngineLoop(ServeLoop):
    """A token is told only after its step has ended on all ranks, with whether their sum was right."""

    def _batch(self) -> Batch:
        self._line = Line.handed()
        self._engine = EngineBatch(self._line, self.serving.most_running)
        return self._engine

    def _rest(self, left: float | None) -> None:
        if self._engine.dropped:  # else the page shows for ever a request that is no more
            self._ledger.write(self._engine.counts)
            self._engine.dropped = False
        self._line.wait(IDLE_POLL if left is None else min(left, IDLE_POLL))

    def _brought(self, batch: Batch, number: int) -> None:
        refused = tuple(self._engine.refused)
        if batch.came or refused:
            came = tuple((one.number, one.made, one.last) for one in batch.came)
            self._line.tell(Stepped(number, self._right(), came, refused))
            self._engine.refused.clear()

    def _right(self) -> bool:
        return abs(float(self.hidden[0, 0]) - 1.0) < TOLERANCE
