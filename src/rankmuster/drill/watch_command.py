"""`python -m rankmuster.drill watch`: its options, and all of its runs one after the other."""

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

from rankmuster.drill.controls import QUIET, Quiet, quiet_named
from rankmuster.drill.faults import FAULTS, Fault, fault_named
from rankmuster.drill.job import WORKER
from rankmuster.drill.job_options import variable
from rankmuster.drill.plan import Backend, Serving
from rankmuster.drill.run import Order
from rankmuster.drill.watch_control import run_control
from rankmuster.drill.watch_fault import run_fault
from rankmuster.drill.watch_result import WatchResult, summary, summary_text, table
from rankmuster.drill.watched import WatchOrder
from rankmuster.drill.watcher import WATCH

RESULTS, SUMMARY = "results.jsonl", "summary.json"
SIZES = ("layers", "batch", "hidden", "pace_seconds")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `watch` takes besides the options of every drill."""
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="names, or all: those that stop a job")
    parser.add_argument(
        "--control", action="append", default=[], metavar="NAME", help=f"{', '.join(QUIET)}, or all; several times"
    )
    parser.add_argument("--times", type=int, default=1, metavar="N", help="runs of each")
    parser.add_argument("--period", type=float, default=5.0, metavar="SECONDS", help="between two looks of the watch")
    parser.add_argument("--seed", type=int, default=1, help="of the requests and of the moments of the faults")
    parser.add_argument("--no-verdict", action="store_true", help="end a job once its stop is told")
    parser.add_argument(
        "--most-seconds", type=float, metavar="SECONDS", help="begin no further run after so long; else all are made"
    )
    parser.add_argument("--control-seconds", type=float, metavar="SECONDS", help="of a control at most; else its own")
    parser.add_argument("--layers", type=int, help="all-reduces of a step")
    parser.add_argument("--batch", type=int, help="rows of the activations")
    parser.add_argument("--hidden", type=int, help="columns of the activations")
    parser.add_argument("--pace-seconds", type=float, metavar="SECONDS", help="sleep after each step")
    parser.add_argument(
        "--watch-option", action="append", default=[], metavar="OPTION", help="more for watch (--watch-option=--x)"
    )


def runs_of(options: argparse.Namespace, worker: Sequence[str] = WORKER, command: Sequence[str] = WATCH) -> Runs:
    """What is to be run. Raises ValueError for what cannot be."""
    backend: Backend = options.backend
    every = [name for name, fault in FAULTS.items() if fault.stops and backend in fault.truths]
    names = every if options.faults == ["all"] else list(dict.fromkeys(options.faults))
    controls = list(QUIET) if options.control == ["all"] else list(dict.fromkeys(options.control))
    faults, quiets = [fault_named(name) for name in names], [quiet_named(name) for name in controls]
    if not faults and not quiets:
        raise ValueError("nothing to run: name a fault, or a control with --control")
    if calm := [fault.name for fault in faults if not fault.stops]:
        raise ValueError(f"{', '.join(calm)} stops no job that has begun to work; watched are {', '.join(every)}")
    if options.times < 1 or not 1 <= options.period <= 60:
        raise ValueError("--times is at least 1, and --period 1 to 60 seconds")
    job = Order(
        fault_named("none"),
        backend,
        options.ranks,
        culprit=options.culprit,
        graph=options.graph,
        ras_port=options.ras_port,
        start_seconds=options.start_seconds,
        extra=dict(variable(text) for text in options.env),
        worker=worker,
    )
    sizes = {name: value for name in SIZES if (value := getattr(options, name)) is not None}
    order = WatchOrder(
        job,
        period=options.period,
        command=(*command, *options.watch_option),
        seed=options.seed,
        verdicts=not options.no_verdict,
        longest=options.control_seconds,
        sizes=sizes,
    )
    for fault in faults or [fault_named("none")]:
        order.planned(fault, Serving(), 0)
    return Runs(order, [*faults, *quiets], options.times, options.most_seconds)


class Runs:
    """All of them. Faults and controls take turns over the times, so that what drifts favours none."""

    def __init__(
        self, order: WatchOrder, wanted: Sequence[Fault | Quiet], times: int, most_seconds: float | None
    ) -> None:
        self.order = order
        self.wanted = [one for _ in range(times) for one in wanted]
        self.most_seconds = most_seconds

    def run(self, output: Path) -> bool:
        """Runs them; whether every one was made and right. `output` exists and is empty."""
        begun, results = time.monotonic(), list[WatchResult]()
        for number, one in enumerate(self.wanted):
            if self.most_seconds is not None and time.monotonic() - begun > self.most_seconds:
                break
            folder = output / f"{number:03d}-{one.name}"
            folder.mkdir()
            result = (
                run_fault(self.order, one, number, folder)
                if isinstance(one, Fault)
                else run_control(self.order, one, number, folder)
            )
            results.append(result)
            with (output / RESULTS).open("a", encoding="utf-8") as lines:
                lines.write(result.to_json() + "\n")
            (output / SUMMARY).write_text(json.dumps(self._summary(results), indent=1) + "\n")
            sys.stdout.write(table([result]).partition("\n")[2])
            sys.stdout.flush()
        sys.stdout.write("\n" + table(results) + summary_text(summary(results)))
        left = len(self.wanted) - len(results)
        if left:
            sys.stdout.write(f"{left} run(s) were not begun: the time was over\n")
        sys.stdout.flush()
        return not left and all(result.right for result in results)

    def _summary(self, results: Sequence[WatchResult]) -> dict[str, Any]:
        job = self.order.job
        return {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
            "job": {
                "backend": job.backend.value,
                "ranks": job.ranks,
                "graph": job.graph,
                "sizes": {**self.order.sizes},
            },
            "period": self.order.period,
            "seed": self.order.seed,
            "not_begun": len(self.wanted) - len(results),
            **summary(results),
        }
