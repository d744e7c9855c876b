"""Network ports from /sys, twice: RDMA and Ethernet counters with the state of each port, so that rates exist."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node import sys_network
from rankmuster.collect.node.sys_network import Look
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink

COUNTERS = "network-counters.jsonl"
RDMA = "topology/rdma.txt"

LOOKS = 2

PASS_SECONDS = 4.0
"""One pass over all ports. A port's files take 1 to 50 ms together; each read of an mlx5 counter is a firmware command,
and a firmware that hangs takes its own time-out of a minute."""


@dataclass(frozen=True, slots=True)
class Network:
    """Counters of plane hardware, facts of plane topology."""

    name: str = "network"
    budget_seconds: float = 15.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Two passes `look_seconds` apart; what the first saw is kept before the second begins."""
        host = scene.target.host if scene.target is not None else scene.machine.hostname
        rows: list[dict[str, Any]] = []
        problems: list[str] = []
        facts = ""
        for look in range(LOOKS):
            began = scene.clock()
            at = round(scene.now(), 4)
            earlier = list(rows)

            def keep(found: Look, at: float = at, earlier: list[dict[str, Any]] = earlier) -> None:
                rows[:] = [*earlier, *({"time": at, "host": host, **port} for port in found.ports)]
                if found.facts:
                    sink.put(RDMA, found.facts.encode(), look_time=at, host=host, replace=True)
                if rows:
                    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
                    sink.put(COUNTERS, data, look_time=at, host=host, replace=True)

            found = sys_network.look(scene.machine.sys, deadline.within(PASS_SECONDS), with_facts=look == 0, keep=keep)
            problems += [problem for problem in found.problems if problem not in problems]
            facts = facts or found.facts
            rest = max(scene.wishes.look_seconds - (scene.clock() - began), 0.0)
            if not rows or look == LOOKS - 1 or rest >= deadline.remaining():
                break
            time.sleep(rest)
        return _outcome(rows, facts, problems, deadline)


def _outcome(rows: list[dict[str, Any]], facts: str, problems: list[str], deadline: Deadline) -> Outcome:
    ports = {(row["kind"], row["device"], row["port"]) for row in rows}
    rdma = sum(kind == "rdma" for kind, _, _ in ports)
    if not ports:
        if problems:
            return Outcome(Ending.FAILED, f"no port could be read: {problems[0]}")
        return Outcome(Ending.NOTHING, "no network port in /sys (is it mounted here?)")
    note = f"{rdma} RDMA and {len(ports) - rdma} Ethernet port(s)"
    if facts and not rdma:
        note += ", RDMA devices without a port"
    warnings = tuple(problems[:5])
    if len(rows) == len(ports):
        reason = "the deadline" if deadline.remaining() < 1 else "too little time"
        return Outcome(Ending.PARTIAL, f"{note}, looked at once ({reason}): no rates", warnings)
    return Outcome(Ending.PARTIAL if problems else Ending.DONE, f"{note}, looked at twice", warnings)
