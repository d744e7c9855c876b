"""What a rank does: it joins, and then runs the loop of its plan until something ends it."""

from __future__ import annotations

import importlib
import os
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from rankmuster.drill import recorder_pipe
from rankmuster.drill.engine_loop import EngineLoop
from rankmuster.drill.faults import fault_named
from rankmuster.drill.plain_loop import PlainLoop
from rankmuster.drill.plan import STEPS, STORE_FD, Backend, JobPlan
from rankmuster.drill.rank_steps import FOREVER, dist, torch
from rankmuster.drill.serve_loop import ServeLoop
from rankmuster.drill.tally import RankState, Tally


def run(plan: JobPlan, rank: int, tally: Tally, folder: Path, *, absent: bool) -> None:
    """Joins and serves until a signal, the plan's time, or the end of a peer ends it. `folder`: of the job."""
    nccl = plan.backend is Backend.NCCL
    if nccl:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store = _store(plan, rank)
    servers = [_worker_server(store, rank)] if plan.debug_server else []
    if not nccl:
        recorder_pipe.from_environment(os.environ, rank, gloo_dump)
        if absent:  # gloo connects all ranks when the group is made, NCCL in the first collective
            time.sleep(FOREVER)
    dist.init_process_group(
        plan.backend.value,
        store=store,
        rank=rank,
        world_size=plan.ranks,
        timeout=timedelta(seconds=fault_named(plan.fault).group_seconds or plan.timeout_seconds),
    )
    tally.reach(rank, RankState.JOINED)
    if absent:
        time.sleep(FOREVER)
    loop: PlainLoop | ServeLoop
    if plan.serving is None:
        loop = PlainLoop(plan, rank, tally)
    else:
        kind = EngineLoop if plan.serving.front else ServeLoop
        loop = kind(plan, plan.serving, rank, tally, folder)
    with (folder / STEPS).open("w") if rank == 0 else nullcontext() as out:
        loop.run(out)
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


def gloo_dump() -> bytes:
    """gloo's recorder with Python stacks, as NCCL's pipe gives it."""
    dumped: bytes = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
    return dumped
