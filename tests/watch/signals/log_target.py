"""Real processes that write logs, and the instance that they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc import Proc
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.model.frameworklog import LogSpan
from rankmuster.watch.signals.signal import Heard, Said, Signal

WATCHDOG = (
    "[rank{rank}]:[E1129 20:00:00.123456789 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=60000) ran for "
    "60010 milliseconds before timing out.\n"
)
_ECHO = """
import sys
for line in sys.stdin:
    sys.stdout.write(line.rstrip("\\n").replace("|", "\\n") + "\\n")
    sys.stdout.flush()
"""


class Writer:
    """A process that writes to its standard output what it is told."""

    def __init__(self, output: Any) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-S", "-c", _ECHO],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def say(self, text: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(text.rstrip("\n").replace("\n", "|") + "\n")
        self.child.stdin.flush()

    def end(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(10)

    def process(self, rank: int | None, **environ: str) -> ProcessOfInstance:
        return process(self.child.pid, rank, **environ)


def process(pid: int, rank: int | None, **environ: str) -> ProcessOfInstance:
    stat = Proc(Path("/proc")).stat(pid)
    assert stat is not None
    return ProcessOfInstance(
        pid=pid,
        inner_pid=pid,
        host_pid=None,
        start_ticks=stat.start_ticks,
        started_at=time.time(),
        role=Role.WORKER,
        name="python",
        rank=rank,
        local_rank=rank,
        uid=os.geteuid(),
        environ=environ,
    )


def target(*processes: ProcessOfInstance, **more: Any) -> Target:
    return Target(name="llm-0", host="node0", processes=processes, **more)


def polled(signal: Signal, until: type | None = None, seconds: float = 10.0) -> list[Said]:
    """What it says at one poll, or at as many as it takes to hear an observation or word of this type."""
    end = time.monotonic() + seconds
    found: list[Said] = []
    while True:
        found.extend(signal.poll(Deadline.after(5.0)))
        if until is None or any(isinstance(one, until) for one in (*found, *observations(found))):
            return found
        assert time.monotonic() < end, f"nothing of {until.__name__} among {found}"


def observations(said: list[Said]) -> list[Any]:
    """What was observed, without the words that the plane is there."""
    return [one.observation for one in said if isinstance(one, Heard) and not isinstance(one.observation, LogSpan)]
