"""Step time of a healthy job with a `rankmuster collect` every 30 s against without, in windows of the same job.

    python benchmarks/collect_overhead.py --backend nccl --ranks 4 --env NCCL_NVLS_ENABLE=0 --output overhead.json

Windows come in pairs, one with a collect at its start and one without, in random order. Printed and written: the ratio
of median and of mean step times with its 95 % interval. `--collect none` runs no collect at all: what the method sees
where there is nothing to see.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from rankmuster.drill import overhead
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import Backend
from rankmuster.drill.run import Collect, Order, StepFailed, collect_by_command

WARM_SECONDS = 5.0
"""After the start, before the first window: clocks, caches and allocators settle."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", type=Backend, choices=list(Backend), default=Backend.GLOO)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=360.0, help="of all windows together")
    parser.add_argument("--window", type=float, default=30.0, help="seconds; one collect in every other")
    parser.add_argument("--collect", choices=("command", "none"), default="command")
    parser.add_argument("--collect-option", action="append", default=[])
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--layers", type=int, help="all-reduces of a step; more of them are less at the host's mercy")
    parser.add_argument("--batch", type=int, help="rows of the activations")
    parser.add_argument("--pace", type=float, help="seconds of sleep after each step")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ras-port", type=int, default=28228)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    pairs = max(int(options.seconds // (2 * options.window)), 1)
    extra = dict(text.split("=", 1) for text in options.env)
    sizes = {"layers": options.layers, "batch": options.batch, "pace_seconds": options.pace}
    more = {"most_seconds": options.seconds + 600} | {k: value for k, value in sizes.items() if value is not None}
    order = Order(
        fault_named("none"),
        options.backend,
        options.ranks,
        graph=options.graph,
        ras_port=options.ras_port,
        extra=extra,
        plan=more,
    )
    collect = collect_by_command(*options.collect_option) if options.collect == "command" else None
    folder = Path(tempfile.mkdtemp(prefix="rankmuster-overhead-"))
    try:
        report = measure(order, collect, folder, pairs, options.window, options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(report, indent=1)
    if options.output:
        options.output.write_text(text + "\n")
    print(table(report))
    failed: list[str] = report["collects"]["failed"]
    for failure in failed:
        print(f"a collect failed: {failure}", file=sys.stderr)
    return 1 if failed else 0


def measure(
    order: Order, collect: Collect | None, folder: Path, pairs: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Runs the job through all its windows; everything that was seen, as JSON."""
    plan = order.job_plan()
    own = folder / "job"
    windows: list[overhead.Window] = []
    took: list[float] = []
    failures: list[str] = []
    with DrillJob(plan, order.environment(own, plan.instance), own) as job:
        job.wait_serving(order.start_seconds, steps=plan.sync_every)
        time.sleep(WARM_SECONDS)
        for pair, sides in enumerate(overhead.order(pairs, seed)):
            for collecting in sides:
                start = time.monotonic()
                if collecting and collect is not None:
                    try:
                        shutil.rmtree(collect(job, folder / f"bundle-{pair}"), ignore_errors=True)
                        took.append(time.monotonic() - start)
                    except StepFailed as error:
                        failures.append(str(error))
                time.sleep(max(start + seconds - time.monotonic(), 0))
                windows.append(overhead.Window(pair, collecting, start, time.monotonic()))
        times = overhead.read_steps(job.steps_file.read_text())
    found = overhead.compare(times, windows, seed)
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "job": asdict(plan),
        "window_seconds": seconds,
        "seed": seed,
        "collects": {"done": len(took), "failed": failures, "seconds": [round(one, 2) for one in took]},
        "windows": [
            {
                "pair": window.pair,
                "collecting": window.collecting,
                "seconds": round(window.end - window.start, 2),
                "median_step_ms": round(1e3 * float(np.median(inside.step)), 4),
                "mean_step_ms": round(1e3 * float(np.mean(inside.step)), 4),
            }
            for window in windows
            if len((inside := times.within(window.start, window.end)).step)
        ],
        "comparison": asdict(found),
    }


def table(report: dict[str, Any]) -> str:
    """For a person."""
    lines = [f"{'pair':>4}  {'collect':>7}  {'median ms':>10}  {'mean ms':>10}"]
    for window in report["windows"]:
        said = "yes" if window["collecting"] else "no"
        median, mean = window["median_step_ms"], window["mean_step_ms"]
        lines.append(f"{window['pair']:>4}  {said:>7}  {median:>10.3f}  {mean:>10.3f}")
    for name in ("median", "mean"):
        ratio = report["comparison"][name]
        change, low, high = (100 * (ratio[key] - 1) for key in ("value", "low", "high"))
        lines.append(f"{name} step time with collect: {change:+.2f} % (95 % interval {low:+.2f} to {high:+.2f} %)")
    collects = report["collects"]
    lines.append(f"collects: {collects['done']} done, {len(collects['failed'])} failed")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
