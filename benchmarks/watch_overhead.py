"""Tokens per second of a healthy job with `rankmuster watch` beside it against without, in windows of the same job.

    python benchmarks/watch_overhead.py --backend nccl --ranks 4 --graph --output overhead.json

Windows come in pairs, one with the watch and one without, in random order; a watch is given time to begin before its
window. Printed and written: the ratio of tokens per second with its 95 % interval, and what the watch itself took: time
of the processor and memory, with everything it started. `--watch none` starts none at all: what the method sees
where there is nothing to see. `--loop plain` takes the loop with the same batch in every step instead of requests.
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
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from rankmuster.drill import overhead
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import Backend, Serving
from rankmuster.drill.run import Order
from rankmuster.drill.traffic import Traffic
from rankmuster.drill.usage import usage_of
from rankmuster.drill.watched import NCCL_SIZES
from rankmuster.drill.watcher import WATCH, Watcher

WARM_SECONDS = 5.0
"""After the start, before the first window: clocks, caches and allocators settle."""
BEGIN_LOOKS = 3
"""Looks after which a watch has begun: it has imported what it needs and found the instance."""
BEGIN_SECONDS = 60.0


@dataclass(frozen=True)
class Taken:
    """Of one watch. `cpu_share`: in its window, of one core; `begin_cpu`: seconds before it; `rss_mb`: at most."""

    cpu_share: float | None
    begin_cpu: float
    rss_mb: float
    looks: int
    events: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", type=Backend, choices=list(Backend), default=Backend.GLOO)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=360.0, help="of all windows together")
    parser.add_argument("--window", type=float, default=30.0, help="seconds")
    parser.add_argument("--period", type=float, default=5.0, help="seconds between two looks")
    parser.add_argument("--watch", choices=("command", "none"), default="command")
    parser.add_argument("--watch-option", action="append", default=[])
    parser.add_argument("--loop", choices=("serving", "plain"), default="serving")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--layers", type=int, help="all-reduces of a step; more of them are less at the host's mercy")
    parser.add_argument("--batch", type=int, help="rows of the activations")
    parser.add_argument("--pace", type=float, help="seconds of sleep after each step")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ras-port", type=int, default=28328)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    pairs = max(int(options.seconds // (2 * options.window)), 1)
    sizes = {"layers": options.layers, "batch": options.batch, "pace_seconds": options.pace}
    plan: dict[str, Any] = dict(NCCL_SIZES) if options.backend is Backend.NCCL and options.loop == "serving" else {}
    plan |= {"most_seconds": 2 * options.seconds + pairs * BEGIN_SECONDS + 600}
    plan |= {name: value for name, value in sizes.items() if value is not None}
    if options.loop == "serving":
        plan["serving"] = Serving(Traffic.FULL, seed=options.seed)
    extra = dict(text.split("=", 1) for text in options.env)
    order = Order(
        fault_named("none"),
        options.backend,
        options.ranks,
        graph=options.graph,
        ras_port=options.ras_port,
        extra=extra,
        plan=plan,
    )
    command = (*WATCH, *options.watch_option) if options.watch == "command" else None
    folder = Path(tempfile.mkdtemp(prefix="rankmuster-overhead-"))
    try:
        report = measure(order, command, folder, pairs, options.window, options.period, options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 1 if report["watches"]["failed"] else 0


def measure(
    order: Order,
    command: tuple[str, ...] | None,
    folder: Path,
    pairs: int,
    seconds: float,
    period: float,
    seed: int,
) -> dict[str, Any]:
    """Runs the job through all its windows; everything that was seen, as JSON."""
    plan = order.job_plan()
    own = folder / "job"
    windows: list[overhead.Window] = []
    tokens: list[float] = []
    taken: list[Taken] = []
    failures: list[str] = []
    with DrillJob(plan, order.environment(own, plan.instance), own) as job:
        job.wait_serving(order.start_seconds)
        time.sleep(WARM_SECONDS)
        for pair, sides in enumerate(overhead.order(pairs, seed)):
            for watching in sides:
                beside = watching and command is not None
                watcher = (
                    Watcher(command, plan.instance, job.metrics_url or "", period, folder / f"watch-{pair}")
                    if beside and command is not None
                    else None
                )
                with watcher or nullcontext():
                    if (
                        watcher is not None
                        and watcher.until(lambda look: int(look.view.get("looks", 0)) >= BEGIN_LOOKS, BEGIN_SECONDS)
                        is None
                    ):
                        failures.append(watcher.ended or f"the watch did not look {BEGIN_LOOKS} times in time")
                    begin_cpu = usage_of(watcher.pid).cpu if watcher is not None else 0.0
                    start, before = time.monotonic(), job.tally.tokens
                    time.sleep(seconds)
                    end = time.monotonic()
                    tokens.append((job.tally.tokens - before) / (end - start))
                    windows.append(overhead.Window(pair, watching, start, end))
                if watcher is not None:
                    taken.append(
                        Taken(
                            watcher.cpu_share(start, end),
                            round(begin_cpu, 3),
                            round(watcher.rss(start, end) / 1e6, 1),
                            len(watcher.looks),
                            [look.event for look in watcher.looks if look.event is not None],
                        )
                    )
        times = overhead.read_steps(job.steps_file.read_text())
    found = overhead.compare(times, windows, seed)
    shares = [one.cpu_share for one in taken if one.cpu_share is not None]
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "job": asdict(plan),
        "period": period,
        "window_seconds": seconds,
        "seed": seed,
        "watches": {
            "failed": failures,
            "cpu_share_mean": float(np.mean(shares)) if shares else None,
            "cpu_share_max": max(shares, default=None),
            "rss_mb_max": max((one.rss_mb for one in taken), default=None),
            "each": [asdict(one) for one in taken],
        },
        "windows": [
            {
                "pair": window.pair,
                "watching": window.collecting,
                "seconds": round(window.end - window.start, 2),
                "tokens_per_second": round(rate, 2),
                "median_step_ms": round(1e3 * float(np.median(inside.step)), 4),
                "mean_step_ms": round(1e3 * float(np.mean(inside.step)), 4),
            }
            for window, rate in zip(windows, tokens, strict=True)
            if len((inside := times.within(window.start, window.end)).step)
        ],
        "step_time": asdict(found),
        "tokens": asdict(
            overhead.compare_rates([(w.pair, w.collecting, r) for w, r in zip(windows, tokens, strict=True)], seed)
        ),
    }


def table(report: dict[str, Any]) -> str:
    """For a person."""
    lines = [f"{'pair':>4}  {'watch':>5}  {'tokens/s':>10}  {'median ms':>10}  {'mean ms':>10}"]
    for window in report["windows"]:
        said = "yes" if window["watching"] else "no"
        numbers = (window["tokens_per_second"], window["median_step_ms"], window["mean_step_ms"])
        lines.append(f"{window['pair']:>4}  {said:>5}  " + "  ".join(f"{number:>10.3f}" for number in numbers))
    for name, ratio in (
        ("tokens per second", report["tokens"]),
        ("median step time", report["step_time"]["median"]),
        ("mean step time", report["step_time"]["mean"]),
    ):
        change, low, high = (100 * (ratio[key] - 1) for key in ("value", "low", "high"))
        lines.append(f"{name} with the watch: {change:+.2f} % (95 % interval {low:+.2f} to {high:+.2f} %)")
    watches = report["watches"]
    if watches["cpu_share_mean"] is not None:
        mean, most = 100 * watches["cpu_share_mean"], 100 * watches["cpu_share_max"]
        lines.append(f"the watch: {mean:.2f} % of a core (at most {most:.2f} %), {watches['rss_mb_max']:.0f} MB")
    lines += [f"a watch failed: {failure}" for failure in watches["failed"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
