"""CPU of one look of the watch, and what its core's modules take of memory.

    python benchmarks/watch_look.py [--gpus 8] [--minutes 30]

Signals are synthetic: a busy instance, an idle one, one that stops. Times are medians of the process's own CPU time, so
that other work on the machine counts less; feeding, judging, the model and the view for exporters are told apart.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict

import numpy as np

from rankmuster.model.plane import Plane
from rankmuster.watch.progress.look import look
from rankmuster.watch.progress.model import ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.snapshot_of import instance_view
from rankmuster.watch.progress.window import Window
from rankmuster.watch.replay.synthetic import EngineKind, Moment, Plan, StopKind, moments
from rankmuster.watch.replay.traffic import Traffic, requests, seconds_of

BOTH = frozenset({Plane.ENGINE, Plane.HARDWARE})
PARTS = ("feed", "look", "model", "view")

MODULES = ("numpy", "pydantic", "rankmuster.model.verdict", "rankmuster.diagnose.run", "rankmuster.watch.progress.look")
"""Imported one after the other; each counts for what it adds."""

RSS = """
import resource, sys
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
print(held())
for name in sys.argv[1:]:
    __import__(name)
    print(held())
"""


def signals(traffic: Traffic, gpus: int, seconds: int, stops: bool) -> list[Moment]:
    plan = Plan(traffic, EngineKind.VLLM, BOTH, StopKind.GRAPH if stops else None, ranks=gpus)
    arrivals = requests(traffic, seconds, np.random.default_rng(1))
    fault = seconds / 2 if stops else None
    return list(
        moments(plan, seconds_of(traffic, arrivals, seconds, np.random.default_rng(2), fault), np.random.default_rng(3))
    )


def costs(taken: list[Moment]) -> dict[str, dict[str, float]]:
    """State -> part -> milliseconds of CPU per look, medians."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    window, model = Window(DEFAULTS), ProgressModel(DEFAULTS)
    for number, moment in enumerate(taken):
        at = [time.process_time()]
        for observation in moment.observations:
            window.feed(moment.now, moment.unix, observation)
        window.advance(moment.now, moment.unix)
        at.append(time.process_time())
        view = look(window, DEFAULTS, moment.now, habit=model.habit)
        at.append(time.process_time())
        judged = model.step(moment.now, view)
        at.append(time.process_time())
        instance_view(judged, view, window, moment.now, name="llm-0")
        at.append(time.process_time())
        if number * DEFAULTS.period > DEFAULTS.window_seconds:
            for part, seconds in zip(PARTS, np.diff(at), strict=True):
                found[judged.state.value][part].append(float(seconds) * 1e3)
    return {state: {part: float(np.median(values)) for part, values in parts.items()} for state, parts in found.items()}


def memory() -> list[tuple[str, float]]:
    """What each of `MODULES` adds to a bare interpreter's resident memory, in MiB."""
    told = subprocess.run([sys.executable, "-c", RSS, *MODULES], capture_output=True, text=True, check=True).stdout
    held = [float(line) for line in told.split()]
    return [("interpreter", held[0]), *zip(MODULES, np.diff(held).tolist(), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    seconds = int(given.minutes * 60)
    print(f"{given.gpus} GPUs, one server; milliseconds of CPU per look")
    print(f"{'signals':12} {'state':10}", *(f"{part:>7}" for part in (*PARTS, "all")), "  of a core")
    for traffic, stops in ((Traffic.BUSY, False), (Traffic.IDLE, False), (Traffic.BUSY, True)):
        for state, parts in costs(signals(traffic, given.gpus, seconds, stops)).items():
            total = sum(parts.values())
            row = " ".join(f"{value:7.2f}" for value in (*(parts[part] for part in PARTS), total))
            name = f"{traffic.value}, stop" if stops else traffic.value
            print(f"{name:12} {state:10} {row}   {total / 1e3 / DEFAULTS.period:7.3%}")
    print("\nMiB of resident memory, added by each")
    for module, mib in memory():
        print(f"{module:34} {mib:6.1f}")


if __name__ == "__main__":
    main()
