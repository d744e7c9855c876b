"""NCCL's log of this rank: asked for before NCCL starts, and the telling lines of it for the parent.

What NCCL chooses for each call is logged at every call, which costs microseconds where there are few: such a log is
made in a start of its own (`Orders.choices`), never while something is measured. Connections and channels are logged
when they are made, which costs a measurement nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MEASURED = "INIT,ENV,GRAPH,NET,P2P,SHM"
CHOSEN = f"{MEASURED},TUNING"
"""NCCL_DEBUG_SUBSYS of the two starts. P2P and SHM write when connections are made; COLL and CALL at every call."""

MOST_LINES = 2_000  # of one rank; 64 sizes of seven operations are 450
MOST_READ = 64 << 20  # bytes of a log
_LINE = 1_000  # characters

_WANTED = re.compile(
    r" -> (?:Algo|Kernel|cudaMemcpy)|\bcoll channels\b|NCCL version|NCCL WARN|Init COMPLETE| Pattern \d|Using network"
    r"| NCCL_\w+ set "
)
_VIA = re.compile(r" via (\S+)")


def ask(environment: dict[str, str], folder: str, *, choices: bool) -> None:
    """Sets the variables; NCCL reads them once, at its first call. What only logs changes no result."""
    for name in [name for name in environment if name.startswith("NCCL_DEBUG")]:
        del environment[name]
    environment["NCCL_DEBUG"] = "INFO"
    environment["NCCL_DEBUG_SUBSYS"] = CHOSEN if choices else MEASURED
    environment["NCCL_DEBUG_FILE"] = os.path.join(folder, "nccl.%h.%p.log")
    if choices:
        environment.setdefault("NCCL_TOPO_DUMP_FILE", os.path.join(folder, "topology.xml"))
        environment.setdefault("NCCL_GRAPH_DUMP_FILE", os.path.join(folder, "graphs.xml"))


def telling(folder: str, pid: int) -> list[str]:
    """Lines of this process's log that say what was chosen, connected or warned of, each kind of connection once."""
    found: dict[str, None] = {}
    ways: set[str] = set()
    for path in sorted(Path(folder).glob(f"nccl.*.{pid}.log")):
        try:
            with path.open("rb") as file:
                text = file.read(MOST_READ).decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            via = _VIA.search(line)
            if via is not None:
                if via[1] in ways:
                    continue
                ways.add(via[1])
            elif _WANTED.search(line) is None:
                continue
            if len(found) < MOST_LINES:
                found.setdefault(line[:_LINE])
    return list(found)
