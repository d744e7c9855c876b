"""One rank of a small serving-like loop on real GPUs, with one fault made on purpose. Started by record.py.

Reads its task from the environment: RANK, WORLD_SIZE, SCENARIO (JSON: layout, fault, rank, step), TOKENS (a file that
rank 0 keeps up to date with requests running and tokens generated).
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SCENARIO = json.loads(os.environ["SCENARIO"])
FAULT, WHO, AT = SCENARIO["fault"], SCENARIO.get("rank"), SCENARIO.get("step", 150)
HIDDEN, VOCAB, BATCH, LAYERS = 4096, 8000, 16, 4
FOREVER = 10_000.0


def tell(running: int, tokens: int) -> None:
    if RANK == 0:
        path = os.environ["TOKENS"]
        with open(path + ".new", "w") as out:
            out.write(f"{running} {tokens}")
        os.replace(path + ".new", path)


class Loop:
    """The groups, the tensors and one step of each layout."""

    def __init__(self) -> None:
        self.x = torch.ones(BATCH, HIDDEN, dtype=torch.bfloat16, device="cuda")
        self.logits = torch.ones(BATCH, VOCAB, dtype=torch.bfloat16, device="cuda")
        self.token = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.pipelined = SCENARIO["layout"] == "tp2pp2"
        self.group = None
        if self.pipelined:
            pairs = [dist.new_group([0, 1], group_desc="tp0"), dist.new_group([2, 3], group_desc="tp1")]
            self.group = pairs[RANK // 2]
        size = 2 if self.pipelined else WORLD
        self.gathered = torch.empty(size, BATCH, VOCAB, dtype=torch.bfloat16, device="cuda")

    def layers(self, hit: bool) -> None:
        for layer in range(LAYERS):
            if hit and layer == 1 and self.odd_call():
                continue
            dist.all_reduce(self.x, group=self.group)
            self.x.fill_(1.0)
        dist.all_gather_into_tensor(self.gathered, self.logits, group=self.group)

    def odd_call(self) -> bool:
        if FAULT == "wrong_size":
            dist.all_reduce(self.x[:, : HIDDEN // 2].contiguous(), group=self.group)
        elif FAULT == "wrong_dtype":
            dist.all_reduce(self.x.float(), group=self.group)
        elif FAULT == "wrong_op":
            dist.all_gather_into_tensor(
                torch.empty(dist.get_world_size(self.group), BATCH, HIDDEN, dtype=torch.bfloat16, device="cuda"),
                self.x,
                group=self.group,
            )
        elif FAULT == "skip":
            pass
        elif FAULT == "order_swap":
            dist.all_gather_into_tensor(self.gathered, self.logits, group=self.group)
        elif FAULT == "busy_gpu":
            torch.cuda._sleep(200_000_000_000)
            return False
        else:
            return False
        return True

    def step(self, number: int) -> None:
        hit = WHO == RANK and number == AT
        dist.broadcast(self.token, src=0)
        if FAULT == "group_order" and hit:
            # The tensor-parallel group first, where everybody else does the whole group first.
            self.layers(False)
            dist.all_reduce(self.x)
        elif FAULT == "group_order":
            dist.all_reduce(self.x)
            self.layers(False)
        elif not self.pipelined:
            self.layers(hit)
        elif RANK < 2:
            self.layers(hit)
            if hit and FAULT == "no_send":
                return
            if hit and FAULT == "stop_before_send":
                time.sleep(FOREVER)
            dist.send(self.x, RANK + 2)
        else:
            if hit and FAULT == "stop_before_recv":
                time.sleep(FOREVER)
            dist.recv(self.x, RANK - 2)
            self.layers(hit)


def fault(number: int) -> None:
    """Faults between two steps."""
    if WHO != RANK:
        return
    if FAULT == "slow" or (FAULT == "tail" and number > 20 and random.random() < SCENARIO.get("share", 0.01)):
        time.sleep(SCENARIO["seconds"])
    if number != AT:
        return
    if FAULT == "stop":
        time.sleep(FOREVER)
    elif FAULT == "exception":
        raise ValueError("sampler got a negative temperature for request 7f3a")
    elif FAULT == "exit0":
        os._exit(0)
    elif FAULT == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT == "python_loop":
        while True:
            pass
    elif FAULT == "hold_gil":
        ctypes.PyDLL(None).sleep(10_000)
    elif FAULT == "cuda_assert":
        table = torch.zeros(4, device="cuda")
        print(table[torch.tensor([9], device="cuda")].item())
    elif FAULT == "cuda_oom":
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")


def serve(loop: Loop) -> None:
    tokens, end = 0, time.monotonic() + SCENARIO["seconds_total"]
    number = 0
    while time.monotonic() < end:
        fault(number)
        if FAULT == "idle" and number >= AT:
            tell(0, tokens)
            time.sleep(0.2)
            continue
        if FAULT == "prefill" and number >= AT:
            big = torch.ones(64 << 20, dtype=torch.bfloat16, device="cuda")
            until = time.monotonic() + SCENARIO["seconds"]
            count = 0
            while count < 4000 and time.monotonic() < until + FOREVER:
                dist.all_reduce(big, group=loop.group)
                big.fill_(1.0)
                count += 1
                if count % 50 == 0:
                    torch.cuda.synchronize()
                if count >= SCENARIO["rounds"]:
                    break
            torch.cuda.synchronize()
        loop.step(number)
        torch.cuda.synchronize() if number % 10 == 0 else None
        time.sleep(SCENARIO.get("pace", 0.0005))
        number += 1
        tokens += BATCH
        if number % 10 == 0:
            tell(BATCH, tokens)


def replay(loop: Loop) -> None:
    """Decode in a CUDA graph: after the capture neither the recorder nor RAS sees anything."""
    loop.layers(False)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loop.layers(False)
    tokens, end, number = 0, time.monotonic() + SCENARIO["seconds_total"], 0
    while time.monotonic() < end:
        if number == AT and WHO == RANK and FAULT == "graph_stop":
            time.sleep(FOREVER)
        fault(number)
        graph.replay()
        if number % 20 == 0:
            torch.cuda.synchronize()
            tell(BATCH, tokens)
        time.sleep(0.0005)
        tokens += BATCH
        number += 1


def main() -> None:
    if FAULT == "init_exit" and WHO == RANK:
        print("ImportError: libcudnn_graph.so.9: cannot open shared object file", file=sys.stderr)
        sys.exit(1)
    if FAULT == "init_no_interface" and WHO == RANK:
        os.environ["NCCL_SOCKET_IFNAME"] = "doesnotexist0"
    torch.cuda.set_device(int(os.environ["LOCAL_GPU"]))
    dist.init_process_group("nccl", timeout=timedelta(seconds=10))
    if FAULT == "init_late" and WHO == RANK:
        time.sleep(FOREVER)
    tell(BATCH, 0)
    loop = Loop()
    (replay if FAULT.startswith("graph") or SCENARIO.get("graph") else serve)(loop)
    dist.barrier()
    dist.destroy_process_group()


main()
