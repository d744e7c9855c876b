"""A small serving engine over all ranks: it loads weights, warms up, and serves requests as they come.

Rank 0 also holds the scheduler. What all ranks do next comes from it by a ring in shared memory, where they rest on the
host (vLLM's workers), or by a broadcast over gloo, in which they wait (SGLang's); see `Control`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from rankmuster.drill.batch import Batch, Work
from rankmuster.drill.faults import Deed
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.orders import Orders
from rankmuster.drill.plan import LEDGER, ORDERS, Backend, Control, JobPlan, Serving
from rankmuster.drill.rank_steps import WARM_STEPS, RankSteps
from rankmuster.drill.tally import RankState, Tally
from rankmuster.drill.traffic import requests

torch: Any = importlib.import_module("torch")
dist: Any = importlib.import_module("torch.distributed")

LOAD_BYTES = 64 << 20
"""Of a piece of the weights; a GPU has it in some milliseconds, over PCIe."""
LOAD_POLL = 0.1
"""Seconds between two pieces: a disk that gives 640 MB/s."""
EARLIEST = 0.5
"""Part of the loading time after which the fastest rank has its weights and waits for the others."""
WITHIN_STEP = (
    *(Deed.SKIP, Deed.EXTRA_CALL, Deed.WRONG_OP, Deed.WRONG_SIZE, Deed.WRONG_DTYPE, Deed.ORDER_SWAP),
    *(Deed.NO_SEND, Deed.NO_RECV),
)
"""Faults that are made within a step, and not between two."""
IDLE_POLL = 0.02
"""Seconds between two looks of the scheduler for a request that is due."""


class ServeLoop(RankSteps):
    """Every step is waited for on every rank, as an engine waits for the tokens it samples."""

    def __init__(self, plan: JobPlan, serving: Serving, rank: int, tally: Tally, folder: Path) -> None:
        super().__init__(plan, rank, tally)
        self.serving, self.folder = serving, folder
        self._give, self._take = self._control()

    def run(self, out: TextIO | None) -> None:
        """Serves until a signal. `out`: where rank 0 writes "end steps seconds of-steps" lines, monotonic seconds."""
        self._load()
        graph = self.capture() if self.graphed else None
        for _ in range(WARM_STEPS):
            self.step()
        self.wait()
        self.tally.reach(self.rank, RankState.SERVING)
        if self.rank:
            self._follow(graph)
        else:
            self._lead(graph, out)

    def _load(self) -> None:
        """Weights come piece by piece, for each rank at its own pace; then all wait for the last one."""
        if not self.serving.load_seconds:
            return
        share = EARLIEST + (1 - EARLIEST) * self.rank / (self.plan.ranks - 1)
        end = time.monotonic() + self.serving.load_seconds * share
        piece = torch.ones(LOAD_BYTES, dtype=torch.uint8)
        if self.plan.backend is Backend.NCCL:
            piece = piece.pin_memory()
        place = torch.empty_like(piece, device=self.hidden.device)
        while time.monotonic() < end:
            place.copy_(piece)
            self.wait()
            time.sleep(LOAD_POLL)
        print(f"Loading weights took {self.serving.load_seconds * share:.2f} seconds", flush=True)
        dist.barrier()
        self.wait()

    def _control(self) -> tuple[Callable[[int, int], None], Callable[[int], int]]:
        """How orders are given by rank 0, and taken by the others; both with the number of the step."""
        if self.serving.control is Control.HOST:
            ring = Orders(self.folder / ORDERS)
            return ring.give, ring.wait
        group = dist.new_group(backend="gloo")
        told = torch.zeros(1, dtype=torch.int64)

        def give(_: int, order: int) -> None:
            told.fill_(order)
            dist.broadcast(told, src=0, group=group)

        def take(_: int) -> int:
            dist.broadcast(told, src=0, group=group)
            return int(told.item())

        return give, take

    def _follow(self, graph: Any) -> None:
        number = 0
        while True:
            self._work(Work(self._take(number)), number, graph)
            number += 1

    def _lead(self, graph: Any, out: TextIO | None) -> None:
        """The engine's scheduler, and rank 0's own part of each step."""
        ledger = self._ledger = Ledger(self.folder / LEDGER)
        batch = self._batch()
        self.tally.move(steps=WARM_STEPS, tokens=0)  # from now on the front end answers
        zero = time.monotonic()
        number = 0
        while True:
            begun = time.monotonic()
            work = batch.next(begun - zero)
            if work is None:
                self._rest(batch.wait(begun - zero))
                continue
            self._give(number, work)
            self._work(work, number, graph)
            number += 1
            now = time.monotonic()
            if batch.done(work, now - zero):
                ledger.write(batch.counts)
            self._brought(batch, number)
            self.tally.running = batch.counts.running
            self.tally.move(steps=WARM_STEPS + number, tokens=batch.counts.generated)
            if out is not None:
                out.write(f"{now:.6f} {number} {now - begun:.6f} 1\n")
                out.flush()

    def _batch(self) -> Batch:
        """The scheduler, with where its requests come from."""
        return Batch(requests(self.serving.traffic, self.serving.seed), self.serving.most_running)

    def _rest(self, left: float | None) -> None:
        """No request is there; `left`: seconds until the next one, where that is known."""
        time.sleep(IDLE_POLL if left is None else min(left, IDLE_POLL))

    def _brought(self, batch: Batch, number: int) -> None:
        """After step `number`, counted from 1, has ended on every rank."""

    def _work(self, work: Work, number: int, graph: Any) -> None:
        """One step. Only decoding is replayed; prompts are of all lengths."""
        eager = graph is None or work is Work.PREFILL
        # What is made within a step waits for one that is not replayed.
        deed = self.due(number) if eager or self.fault.deed not in WITHIN_STEP else None
        if eager:
            self.step(deed)
        elif deed is None:
            graph.replay()
        self.wait()
        time.sleep(self.plan.pace_seconds)
