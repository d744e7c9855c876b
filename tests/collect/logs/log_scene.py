"""A scene with processes of one's choice, and what their logs become in a bundle."""

from __future__ import annotations

import os
from pathlib import Path

from rankmuster.collect.collector import Collector, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Outcome
from rankmuster.collect.sink import Piece, Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes

NOW = 1_795_986_500.25
INIT = (
    "node0:{pid}:{pid} [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n"
    "node0:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55d5 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
    "commId 0xabc - Init START\n"
    "node0:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55d5 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
    "commId 0xabc - Init COMPLETE\n"
)
CALL = (
    "node0:{pid}:{pid} [0] NCCL INFO AllReduce: opCount {count:x} sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 "
    "op 0 root 0 comm 0x55d5 [nranks=2] stream 0x55 task 0 globalrank {rank}\n"
)
WATCHDOG = (
    "[rank{rank}]:[E1129 20:00:00.123456789 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=60000) ran for "
    "60010 milliseconds before timing out.\n"
)


def process(
    rank: int | None,
    *,
    pid: int = 0,
    inner: int | None = None,
    root: Path = Path("/"),
    cwd: Path | None = None,
    role: Role = Role.WORKER,
    uid: int | None = None,
    parent: int | None = None,
    command: tuple[str, ...] = (),
    started_at: float = 0.0,
    local_rank: int | None = None,
    **environ: str,
) -> ProcessOfInstance:
    """A process; `pid` 0 is nobody's, so that it has no open files."""
    return ProcessOfInstance(
        pid=pid,
        inner_pid=inner if inner is not None else pid,
        host_pid=None,
        start_ticks=1,
        started_at=started_at,
        role=role,
        name="python",
        rank=rank,
        local_rank=local_rank if local_rank is not None else rank,
        uid=uid if uid is not None else os.geteuid(),
        parent=parent,
        root=root,
        cwd=cwd,
        environ=environ,
        command=command,
    )


def scene(
    *processes: ProcessOfInstance, wishes: Wishes | None = None, machine: Machine | None = None, **target: object
) -> Scene:
    """The scene of an instance with these processes."""
    instance = Target(name="llm-0", host="node0", processes=processes, **target)  # type: ignore[arg-type]
    return Scene(instance, machine or Machine(hostname="node0"), wishes or Wishes(), now=lambda: NOW)


class Taken:
    """What a collector has put, and how it ended."""

    def __init__(self, folder: Path, collector: Collector, of: Scene, seconds: float = 20.0) -> None:
        store = Store(folder / "bundle")
        self.outcome: Outcome = collector.collect(of, store.sink(collector.name), Deadline.after(seconds))
        self.pieces: dict[str, Piece] = {piece.path: piece for piece in store.close()}
        self.folder = folder / "bundle"

    def read(self, path: str) -> bytes:
        """A piece's content."""
        return (self.folder / path).read_bytes()
