"""What a rank does: joins, serves step after step, and makes its fault when the word is given. The one torch module."""

from __future__ import annotations

import importlib
import os
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from rankmuster.drill import recorder_pipe
from rankmuster.drill.faults import Deed, Fault, When, fault_named
from rankmuster.drill.plan import STORE_FD, Backend, JobPlan
from rankmuster.drill.tally import RankState, Tally

# As Any, so that the types are the same where torch is installed and where it is not.
torch: Any = importlib.import_module("torch")
dist: Any = importlib.import_module("torch.distributed")

FOREVER = 1e6
"""Seconds: longer than any job."""
REST_POLL = 0.05
"""Seconds between two looks for a request of a rank that rests."""
REST_LEAD = 5
"""Waits for the GPU between the word to rest and the rest: hosts run ahead of each other by less than one."""
WARM_STEPS = 3
"""Steps after which a rank counts as serving, and before a graph is captured: communicators, buffers and kernels exist
then."""


def run(plan: JobPlan, rank: int, tally: Tally, steps_file: Path, *, absent: bool) -> None:
    """Joins and serves until a signal, the plan's time, or the end of a peer ends it."""
    nccl = plan.backend is Backend.NCCL
    if nccl:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store = _store(plan, rank)
    servers = [_worker_server(store, rank)] if plan.debug_server else []
    if not nccl:
        recorder_pipe.from_environment(os.environ, rank, _dump)
        if absent:  # gloo connects all ranks when the group is made, NCCL in the first collective
            time.sleep(FOREVER)
    dist.init_process_group(
        plan.backend.value,
        store=store,
        rank=rank,
        world_size=plan.ranks,
        timeout=timedelta(seconds=plan.timeout_seconds),
    )
    tally.reach(rank, RankState.JOINED)
    if absent:
        time.sleep(FOREVER)
    serving = Serving(plan, rank, tally)
    with steps_file.open("w") if rank == 0 else nullcontext() as out:
        serving.run(out)
    del servers


def _store(plan: JobPlan, rank: int) -> Any:
    address: dict[str, Any] = {"host_name": os.environ["MASTER_ADDR"], "port": int(os.environ["MASTER_PORT"])}
    more: dict[str, Any] = {"world_size": plan.ranks, "timeout": timedelta(seconds=plan.timeout_seconds)}
    if rank == 0:
        more |= {"is_master": True, "wait_for_workers": False}
        if STORE_FD in os.environ:
            more["master_listen_fd"] = int(os.environ[STORE_FD])
    return dist.TCPStore(**address, **more)


def _worker_server(store: Any, rank: int) -> object:
    """torch's own endpoint of this rank (`/handler/fr_trace_json` and the like), announced as torch's debug server
    announces it; without the front end, which needs more packages."""
    importlib.import_module("torch.distributed.debug._handlers")  # registers them
    server = torch._C._distributed_c10d._WorkerServer("127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.port}"
    dist.PrefixStore("debug_server", store).set(f"rank{rank}", address)
    print(f"worker server on {address}", flush=True)
    return server


def _dump() -> bytes:
    """gloo's recorder with Python stacks, as NCCL's pipe gives it."""
    dumped: bytes = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
    return dumped


class Serving:
    """The tensors of a rank, and its steps."""

    def __init__(self, plan: JobPlan, rank: int, tally: Tally) -> None:
        self.plan, self.rank, self.tally = plan, rank, tally
        self.fault: Fault = fault_named(plan.fault)
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

    def run(self, out: TextIO | None) -> None:
        """Step after step. `out`: where rank 0 writes "end steps seconds of-steps" lines, monotonic seconds."""
        plan, tally, leader = self.plan, self.tally, self.rank == 0
        graph = self._capture() if plan.graph or self.fault.graph else None
        if leader:
            tally.running = plan.batch
        number = 0
        begun = time.monotonic()
        while True:
            if tally.rest_from and number >= tally.rest_from:
                self._rest()
                begun = time.monotonic()
            deed = self._due(number)
            if graph is None:
                self._step(deed)
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

    def _step(self, deed: Deed | None = None) -> None:
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
        dist.all_gather_into_tensor(self.gathered, self.logits)

    def _capture(self) -> Any:
        """The step as a CUDA graph: after this neither the recorder nor RAS sees any of it."""
        for _ in range(WARM_STEPS):
            self._step()
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph

    def _due(self, number: int) -> Deed | None:
        """Makes what is made between two steps, and says what is to be made within the next."""
        if not self.armable or not self.tally.armed:
            return None
        deed = self.fault.deed
        if deed is Deed.SLOW:
            self._tell()
            time.sleep(self.fault.pause_seconds)
            return None
        if deed is Deed.REST:
            if self.rank == 0 and not self.tally.rest_from:
                self.tally.rest_from = number + REST_LEAD * self.plan.sync_every
            return None
        if self.done:
            return None
        self._tell()
        if deed is Deed.STOP:
            time.sleep(FOREVER)
        return deed

    def _tell(self) -> None:
        if not self.done:
            self.done = True
            self.tally.fault_at = time.time_ns()
            print(f"rank {self.rank}: drill begins", flush=True)

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


def _nothing() -> None:
    """gloo's collectives have ended when they return."""
