"""The tensors of a rank, one step over all ranks, and the faults that a rank makes within one or between two."""

from __future__ import annotations

import importlib
import random
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
GPU_BUSY_CYCLES = 10**13
"""Of a GPU's clock, that the busy one spins: more than an hour at 2 GHz, longer than any job."""
TAIL_SHARE = 0.05
"""Of the steps in which a rank with a tail is late: rare enough that half of them, and the median, are as ever."""
HANDED_BYTES = 256 << 20
"""Of a message that nobody receives with NCCL: its buffers take 4 MiB a channel (NCCL_BUFFSIZE), of which a pair of
GPUs has 32 at most; a send that fits there has ended for its sender."""
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
        self.second = dist.new_group() if self.fault.deed is Deed.ORDER_SWAP else None
        self.handed = self._message(**kind)
        self.chance = random.Random(plan.seed)  # noqa: S311  # no secret
        self.wait = torch.cuda.synchronize if cuda else _nothing

    def step(self, deed: Deed | None = None) -> None:
        """One step over all ranks, with what is to be made within it."""
        dist.broadcast(self.token, src=0)
        self.hidden.fill_(1.0)
        for layer in range(self.plan.layers):
            torch.mm(self.hidden, self.weight, out=self.partial)
            if layer == 1 and deed is Deed.SKIP:
                continue
            self._reduce(deed if layer == 1 else None)
            self.hidden.copy_(self.partial)
        if self.second is not None:
            for group in (self.second, None) if deed is Deed.ORDER_SWAP else (None, self.second):
                dist.all_reduce(self.partial, group=group)
        if self.handed is not None:
            self._hand_on(self.handed, deed)
        dist.all_gather_into_tensor(self.gathered, self.logits)

    def _reduce(self, deed: Deed | None) -> None:
        """One all-reduce of the activations, or what the culprit calls in its place."""
        if deed is Deed.WRONG_SIZE:
            dist.all_reduce(self.partial[:, : self.plan.hidden // 2].contiguous())
        elif deed is Deed.WRONG_DTYPE:
            dist.all_reduce(self.partial.to(torch.float32 if self.partial.is_cuda else torch.float64))
        elif deed is Deed.WRONG_OP:
            spread = self.partial.new_empty(self.plan.ranks * self.plan.batch, self.plan.hidden)
            dist.all_gather_into_tensor(spread, self.partial)
        else:
            dist.all_reduce(self.partial)
            if deed is Deed.EXTRA_CALL:
                dist.all_reduce(self.partial.clone())

    def _message(self, **kind: Any) -> Any:
        """What one rank hands on to the next in jobs in which one of the two is to leave that out; None in others."""
        if self.fault.deed not in (Deed.NO_SEND, Deed.NO_RECV):
            return None
        if self.fault.deed is Deed.NO_RECV and self.plan.backend is Backend.NCCL:
            return torch.zeros(HANDED_BYTES, dtype=torch.uint8, device=kind["device"])
        return torch.ones(self.plan.batch, self.plan.hidden, **kind)

    def _hand_on(self, message: Any, deed: Deed | None) -> None:
        """One rank hands its activations on to the next, as a stage of a pipeline does. The culprit is the end that
        may leave it out."""
        culprit, ranks = self.plan.culprit, self.plan.ranks
        source = culprit if self.fault.deed is Deed.NO_SEND else (culprit - 1) % ranks
        target = (source + 1) % ranks
        if self.rank == source and deed is not Deed.NO_SEND:
            dist.send(message, dst=target)
        elif self.rank == target and deed is not Deed.NO_RECV:
            dist.recv(message, src=source)

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
        if deed is Deed.TAIL:
            self._tell()
            if self.chance.random() < TAIL_SHARE:
                time.sleep(self.fault.pause_seconds)
            return None
        if deed is Deed.REST:
            self.rest_due(number)
            return None
        if self.done:
            return None
        self._tell()
        return self._begin(deed)

    def _begin(self, deed: Deed | None) -> Deed | None:
        """Makes what is made once: between two steps, or, where it is handed back, within the next."""
        if deed is Deed.STOP:
            time.sleep(FOREVER)
        if deed is Deed.RAISE:
            raise RuntimeError(f"the drill's fault: rank {self.rank} cannot go on")
        if deed is Deed.GPU_BUSY:
            torch.cuda._sleep(GPU_BUSY_CYCLES)
            return None
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
