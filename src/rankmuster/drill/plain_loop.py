"""Step after step without an end: the same batch always, so that two stretches of time can be compared."""

from __future__ import annotations

import time
from typing import TextIO

from rankmuster.drill.rank_steps import WARM_STEPS, RankSteps
from rankmuster.drill.tally import RankState

REST_POLL = 0.05
"""Seconds between two looks for a request of a rank that rests."""
REST_LEAD = 5
"""Waits for the GPU between the word to rest and the rest: hosts run ahead of each other by less than one."""


class PlainLoop(RankSteps):
    """Decodes; waits for the GPU, tells and writes times every `sync_every` steps only."""

    def run(self, out: TextIO | None) -> None:
        """Step after step. `out`: where rank 0 writes "end steps seconds of-steps" lines, monotonic seconds."""
        plan, tally, leader = self.plan, self.tally, self.rank == 0
        graph = self.capture() if self.graphed else None
        if leader:
            tally.running = plan.batch
        number = 0
        begun = time.monotonic()
        while True:
            if tally.rest_from and number >= tally.rest_from:
                self._rest()
                begun = time.monotonic()
            deed = self.due(number)
            if graph is None:
                self.step(deed)
            elif deed is None:  # what would differ within a step is a replay left out
                graph.replay()
            number += 1
            if number == WARM_STEPS:
                self.wait()
                tally.reach(self.rank, RankState.SERVING)
            if number % plan.sync_every == 0:
                self.wait()
                now = time.monotonic()
                if out is not None:
                    tally.move(steps=number, tokens=number * plan.batch)
                    out.write(f"{now:.6f} {number} {now - begun:.6f} {plan.sync_every}\n")
                    out.flush()
                begun = now
            time.sleep(plan.pace_seconds)

    def rest_due(self, number: int) -> None:
        """Rank 0 names a step before which all rest."""
        if self.rank == 0 and not self.tally.rest_from:
            self.tally.rest_from = number + REST_LEAD * self.plan.sync_every

    def _rest(self) -> None:
        """No request: outside any collective, until the parent takes back its word."""
        self.wait()
        if self.rank == 0:
            self.tally.running = 0
            self.tally.fault_at = time.time_ns()
            while self.tally.armed:
                time.sleep(REST_POLL)
            self.tally.running = self.plan.batch
            self.tally.rest_from = 0
        while self.tally.rest_from:
            time.sleep(REST_POLL)
