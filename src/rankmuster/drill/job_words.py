"""What the launcher of a drill's job says of its ranks: as a supervisor, in its log, and in an error."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rankmuster.drill.launch import End, Launched
from rankmuster.drill.plan import JobPlan
from rankmuster.drill.tally import RankState

SAID_BYTES = 1500
"""Of a rank's own last words in an error."""


def facts(plan: JobPlan, started_at: float, ranks: Mapping[int, Launched]) -> dict[str, object]:
    """What a supervisor knows of the job now, as `instance.json` of a bundle."""
    return {
        "instance": plan.instance,
        "world_size": plan.ranks,
        "started_at": started_at,
        "last_look": time.time(),
        "processes": [
            {
                "rank": rank,
                "pid": process.pid,
                "host": socket.gethostname().split(".")[0],
                "exit_code": process.end.code if process.end else None,
                "exited_at": process.end.at if process.end else None,
            }
            for rank, process in ranks.items()
        ],
    }


def ended_line(binary: str, rank: int, pid: int, end: End) -> str:
    """That a rank ended, in the words of torchrun."""
    stamp = datetime.fromtimestamp(end.at).strftime("%m%d %H:%M:%S.%f")
    line = f"E{stamp} {os.getpid()} launcher.py:1] failed (exitcode: {end.code}) local_rank: {rank} (pid: {pid})"
    return f"{line} of binary: {binary}\n"


def states(reached: Mapping[int, RankState], exits: Mapping[int, End]) -> str:
    """Who has come how far: "rank 0 serving, rank 1 loaded (ended with -9)"."""
    return ", ".join(
        f"rank {rank} {state.name.lower()}" + (f" (ended with {exits[rank].code})" if rank in exits else "")
        for rank, state in reached.items()
    )


def story(rank: int, end: End | None, log: Path) -> str:
    """How a rank is, with its last words."""
    how = f"ended with status {end.code}" if end is not None else "is still there"
    try:
        said = log.read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
    except OSError as error:
        said = f"its log cannot be read: {error}"
    return f"rank {rank} {how} and said last: {said or 'nothing'}"
