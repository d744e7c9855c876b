"""`python -m rankmuster.drill incident`: its options, and all of its runs one after the other."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankmuster.drill.fault_needs import obstacle
from rankmuster.drill.faults import FAULTS, Fault, fault_named
from rankmuster.drill.incident_gateway import program
from rankmuster.drill.incident_once import IncidentOrder, run_incident
from rankmuster.drill.incident_result import IncidentResult, summary, summary_text, table
from rankmuster.drill.incident_stand import StandOrder
from rankmuster.drill.job_options import variable
from rankmuster.drill.plan import Backend, JobPlan

RESULTS, SUMMARY = "results.jsonl", "summary.json"
PERIOD = 4.0
"""Between two looks of the watch. A stop is told at the third look at the latest: after 12 s, and the rest of the 15 is
for a busy host."""
ALL = (
    *("skip", "extra_call", "wrong_op", "wrong_size", "wrong_dtype", "order_swap", "no_send", "no_recv"),
    *("kill", "exception", "freeze", "loop", "stop", "gpu_busy", "link_cut", "graph_stop"),
)
"""Faults of which a served engine does not recover by itself, and that its own steps can have."""


def add_incident_options(parser: argparse.ArgumentParser) -> None:
    """What `incident` takes besides the options of every drill."""
    parser.add_argument("faults", nargs="+", metavar="FAULT", help=f"{', '.join(ALL)}, or all of them that can be made")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="runs of each")
    parser.add_argument("--clients", type=int, default=6, metavar="N", help="that ask at a time")
    parser.add_argument("--period", type=float, default=PERIOD, metavar="SECONDS", help="of the watch's looks")
    parser.add_argument("--seed", type=int, default=1, help="of the requests and of the moments of the faults")
    parser.add_argument(
        "--most-seconds", type=float, metavar="SECONDS", help="begin no further run after so long; else all are made"
    )
    parser.add_argument("--collect-option", action="append", default=[], metavar="OPTION", help="more for collect")
    parser.add_argument(
        "--engine-option", action="append", default=[], metavar="OPTION", help="more for the engine (--load-seconds=5)"
    )


def incidents_of(options: argparse.Namespace) -> Incidents:
    """What is to be run. Raises ValueError for what cannot be, OSError without HAProxy."""
    backend: Backend = options.backend
    able = [name for name in ALL if backend in FAULTS[name].truths]
    names = list(dict.fromkeys(options.faults))
    if names == ["all"]:
        why_not = {name: obstacle(FAULTS[name]) for name in able}
        sys.stdout.writelines(f"{why}\n" for why in why_not.values() if why)
        names = [name for name in able if not why_not[name]]
    faults = [fault_named(name) for name in names]
    for fault in faults:
        fault.truth(backend)
        if fault.name not in ALL:
            raise ValueError(f"{fault.name} is no fault of a served engine; there are {', '.join(able)}")
        if why := obstacle(fault):
            raise ValueError(why)
    if options.times < 1 or options.clients < 1 or not 1 <= options.period <= 60:
        raise ValueError("--times and --clients are at least 1, and --period 1 to 60 seconds")
    culprit = max(options.ranks - 2, 0) if options.culprit is None else options.culprit
    JobPlan("drill", options.ranks, backend, culprit=culprit, graph=options.graph)
    program()
    stand = StandOrder(
        f"drill-{os.getpid()}",
        backend,
        options.ranks,
        graph=options.graph,
        period=options.period,
        ras_port=options.ras_port,
        engine=tuple(options.engine_option),
        collect=tuple(options.collect_option),
        extra=dict(variable(text) for text in options.env),
    )
    order = IncidentOrder(stand, culprit, options.clients, options.seed, options.start_seconds)
    return Incidents(order, faults, options.times, options.most_seconds)


class Incidents:
    """All of them. Faults take turns over the times, so that what drifts favours none."""

    def __init__(self, order: IncidentOrder, faults: Sequence[Fault], times: int, most_seconds: float | None) -> None:
        self.order = order
        self.wanted = [fault for _ in range(times) for fault in faults]
        self.most_seconds = most_seconds

    def run(self, output: Path) -> bool:
        """Runs them; whether every one was made and right. `output` exists and is empty."""
        begun, results = time.monotonic(), list[IncidentResult]()
        for number, fault in enumerate(self.wanted):
            if self.most_seconds is not None and time.monotonic() - begun > self.most_seconds:
                break
            folder = output / f"{number:03d}-{fault.name}"
            folder.mkdir()
            results.append(run_incident(self.order, fault, number, folder))
            with (output / RESULTS).open("a", encoding="utf-8") as lines:
                lines.write(results[-1].to_json() + "\n")
            (output / SUMMARY).write_text(json.dumps(self._summary(results), indent=1) + "\n")
            sys.stdout.write(table(results[-1:]).partition("\n")[2])
            sys.stdout.flush()
        if len(results) > 1:
            sys.stdout.write("\n" + table(results))
        sys.stdout.write("\n" + summary_text(summary(results)))
        left = len(self.wanted) - len(results)
        if left:
            sys.stdout.write(f"{left} run(s) were not begun: the time was over\n")
        sys.stdout.flush()
        return not left and all(result.right for result in results)

    def _summary(self, results: Sequence[IncidentResult]) -> dict[str, Any]:
        stand = self.order.stand
        return {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
            "engine": {"backend": stand.backend.value, "ranks": stand.ranks, "graph": stand.graph},
            "period": stand.period,
            "clients": self.order.clients,
            "seed": self.order.seed,
            "not_begun": len(self.wanted) - len(results),
            **summary(results),
        }
