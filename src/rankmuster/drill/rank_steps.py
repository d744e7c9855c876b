"""The tensors of a rank, one step over all ranks, and the faults that a rank makes within one or between two."""

from __future__ import annotations

import importlib
import time
from typing import Any

from rankmuster.drill.faults import Deed, Fault, When, fault_named
from rankmuster.drill.plan import Backend, JobPlan
from rankmuster.drill.tally import Tally

# As Any, so that the types are the same where torch is installed and where it is not.
torch: Any = importlib.import_module("torch")
dist: Any = importlib.import_module("torch.distributed")

FOREVER = 1e6
"""Seconds: longer than any job."""
WARM_STEPS = 3
"""Steps after which a rank counts as serving, and before a graph is captured: communicators, buffers and kernels exist
then."""


class RankSteps:
    """What every loop of a rank is made of."""

    def __init__(self, plan: JobPlan, rank: int, tally: Tally) -> None:
        self.plan, self.rank, self.tally = plan, rank, tally
        self.fault: Fault = fault_named(plan.fault)
        self.graphed = plan.graph or self.fault.graph
        self.armable = self.fault.when is When.ARMED and (rank == plan.culprit or self.fault.deed is Deed.REST)
        self.done = False
        cuda = plan.backend is Backend.NCCL
        kind: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16} if cuda else {"dtype": torch.float32}
        self.hidden = torch.ones(plan.batch, plan.hidden, **kind)
        # Each layer divides by the number of ranks and the reduction multiplies by it: the values stay near 1.
        self.weight = (torch.eye(plan.hidden) / plan.ranks).to(**kind)
        self.partial = torch.empty_like(self.hidden)
        self.logits = torch.ones(plan.batch, plan.vocab, **kind)
        self.gathered = torch.empty(plan.ranks * plan.batch, plan.vocab, **kind)
        self.token = torch.zeros(1, dtype=torch.int64, device=self.hidden.device)
        self.wait = torch.cuda.synchronize if cuda else _nothing

    def step(self, deed: Deed | None = None) -> None:
        """One step over all ranks, with what is to be made within it."""
        dist.broadcast(self.token, src=0)
        self.hidden.fill_(1.0)
        for layer in range(self.plan.layers):
            torch.mm(self.hidden, self.weight, out=self.partial)
            if layer == 1 and deed is Deed.SKIP:
                continue
            if layer == 1 and deed is Deed.WRONG_SIZE:
                dist.all_reduce(self.partial[:, : self.plan.hidden // 2].contiguous())
            else:
                dist.all_reduce(self.partial)
            self.hidden.copy_(self.partial)
        if self.fault.deed is Deed.NO_SEND:
            self._hand_on(deed)
        dist.all_gather_into_tensor(self.gathered, self.logits)

    def _hand_on(self, deed: Deed | None) -> None:
        """The culprit sends its activations to the next rank, as a stage of a pipeline does."""
        following = (self.plan.culprit + 1) % self.plan.ranks
        if self.rank == self.plan.culprit and deed is not Deed.NO_SEND:
            dist.send(self.hidden, dst=following)
        elif self.rank == following:
            dist.recv(self.partial, src=self.plan.culprit)

    def capture(self) -> Any:
        """The step as a CUDA graph: after this neither the recorder nor RAS sees any of it."""
        for _ in range(WARM_STEPS):
            self.step()
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph

    def due(self, number: int) -> Deed | None:
        """Makes what is made between two steps, and says what is to be made within the next."""
        if not self.armable or not self.tally.armed:
            return None
        deed = self.fault.deed
        if deed is Deed.SLOW:
            self._tell()
            time.sleep(self.fault.pause_seconds)
            return None
        if deed is Deed.REST:
            self.rest_due(number)
            return None
        if self.done:
            return None
        self._tell()
        if deed is Deed.STOP:
            time.sleep(FOREVER)
        while deed is Deed.LOOP:
            pass  # a loop in Python that has no end: the process runs, and calls nothing
        return deed

    def rest_due(self, number: int) -> None:
        """What a loop does with the word to rest; nothing where requests come and go by themselves."""

    def _tell(self) -> None:
        if not self.done:
            self.done = True
            self.tally.fault_at = time.time_ns()
            print(f"rank {self.rank}: drill begins", flush=True)


def _nothing() -> None:
    """gloo's collectives have ended when they return."""
