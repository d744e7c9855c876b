"""Detection times and false alarms of `watch`: synthetic hours and injected stops, cases, and what a look costs.

    python tools/replay_watch.py --hours 24 --stops 24 --output docs/measured/watch-replay.json

Deterministic but for the costs. `--cases FOLDER` also replays captures (`FOLDER/*/input.tar.zst`).
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose import engine_state
from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.evidence.bundle import load
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.look import look
from rankmuster.watch.progress.model import Event, ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.window import Window
from rankmuster.watch.replay.run import captured, day, inject, replay
from rankmuster.watch.replay.synthetic import RETRY_FAILS, EngineKind, Plan, StopKind, moments
from rankmuster.watch.replay.traffic import Traffic, requests, seconds_of

BOTH = frozenset({Plane.ENGINE, Plane.HARDWARE})
VIEWS = (
    (EngineKind.VLLM, BOTH),
    (EngineKind.SGLANG, BOTH),
    (EngineKind.SGLANG_OLD, BOTH),
    (EngineKind.VLLM, frozenset({Plane.ENGINE})),
    (EngineKind.VLLM, frozenset({Plane.HARDWARE})),
)

RANKS = 4
"""Of the replayed instances: what is judged does not depend on it, and days are long. Costs are of eight."""

DAY_VIEWS = VIEWS


def name(engine: EngineKind, planes: frozenset[Plane]) -> str:
    return "hardware" if planes == {Plane.HARDWARE} else "+".join([engine.value, *(["hardware"] * (planes == BOTH))])


def one_day(traffic: Traffic, engine: EngineKind, planes: frozenset[Plane], seconds: int) -> dict[str, Any]:
    began = time.process_time()
    found = day(Plan(traffic, engine, planes, ranks=RANKS, culprit=1), seconds, seed=17)
    return {
        "signals": name(engine, planes),
        "traffic": traffic.value,
        "hours": seconds / 3600,
        "looks": found.looks,
        "false_alarms": len(found.alarms),
        "first_alarms": [list(alarm) for alarm in found.alarms[:3]],
        "states": found.states,
        "cpu_ms_per_look_with_generator": round((time.process_time() - began) / found.looks * 1e3, 2),
    }


def stops(traffic: Traffic, engine: EngineKind, planes: frozenset[Plane], count: int) -> list[dict[str, Any]]:
    found = []
    kinds = list(StopKind)
    for number in range(count):
        stop = kinds[number % len(kinds)]
        result = inject(Plan(traffic, engine, planes, stop, ranks=RANKS, culprit=1), seed=1000 + 7 * number)
        if result is not None:
            row = {"signals": name(engine, planes), "traffic": traffic.value, "stop": stop.value}
            found.append(
                {
                    **row,
                    "seconds": result.seconds,
                    "early": result.early,
                    "visible": result.visible,
                    "named": result.named,
                    "starting": result.starting,
                    "silent": result.silent,
                }
            )
    return found


def judged(row: dict[str, Any]) -> bool:
    """Whether the watch could tell: its planes can show the stop, one of them answered, and it was no start."""
    return row["visible"] and not row["starting"] and not row["silent"]


def table(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Per signals and `by`: what was seen of the stops that the watch could tell; the others are counted by why not."""
    found = []
    for key in sorted({(row["signals"], row[by]) for row in rows}):
        here = [row for row in rows if (row["signals"], row[by]) == key]
        seen = [row for row in here if judged(row)]
        seconds = np.array([row["seconds"] if row["seconds"] is not None else np.inf for row in seen])
        names = [row["named"] for row in seen if row["named"] is not None]
        found.append(
            {
                "signals": key[0],
                by: key[1],
                "injected": len(here),
                "not_visible_to_these_planes": sum(not row["visible"] for row in here),
                "before_first_token": sum(row["visible"] and row["starting"] for row in here),
                "no_plane_answered": sum(row["visible"] and not row["starting"] and row["silent"] for row in here),
                "judged": len(seen),
                "within_15_s": round(float(np.mean(seconds <= 15)), 4) if len(seen) else None,
                "seconds_p50_p95_max": [
                    round(float(value), 1) if np.isfinite(value) else None
                    for value in np.quantile(seconds, [0.5, 0.95, 1.0], method="higher")
                ]
                if len(seen)
                else None,
                "missed_in_45_s": int(np.sum(~np.isfinite(seconds))),
                "alarms_before_the_fault": sum(row["early"] for row in here),
                "culprit_named": round(float(np.mean(names)), 4) if names else None,
            }
        )
    return found


def cost(ranks: int = 8, seconds: int = 3600) -> dict[str, Any]:
    """CPU of one look (feeding, judging, model) and memory of window and model, in busy traffic and in a stop."""
    plan = Plan(Traffic.BUSY, EngineKind.VLLM, BOTH, StopKind.GRAPH, ranks=ranks)
    arrivals = requests(plan.traffic, seconds, np.random.default_rng(1))
    ticks = seconds_of(plan.traffic, arrivals, seconds, np.random.default_rng(2), fault_at=seconds - 600.0)
    taken = list(moments(plan, ticks, np.random.default_rng(3)))
    costs: dict[str, list[float]] = {"advancing": [], "stopped": []}
    for measured in (True, False):
        if not measured:
            tracemalloc.start()
        window, model = Window(DEFAULTS), ProgressModel(DEFAULTS)
        for moment in taken:
            began = time.process_time()
            for observation in moment.observations:
                window.feed(moment.now, moment.unix, observation)
            window.advance(moment.now, moment.unix)
            judged = model.step(moment.now, look(window, DEFAULTS, moment.now, habit=model.habit))
            if measured:
                costs.setdefault(judged.state.value, []).append(time.process_time() - began)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    medians = {state: round(float(np.median(values)) * 1e3, 2) for state, values in costs.items() if values}
    return {
        "gpus": ranks,
        "cpu_ms_per_look": medians,
        "share_of_one_core_at_5_s": round(max(medians.values()) / 1e3 / DEFAULTS.period, 5),
        "memory_kb_window_and_model": round(held / 1024),
        "memory_kb_peak": round(peak / 1024),
    }


def cases(folder: Path) -> list[dict[str, Any]]:
    found = []
    for case in sorted(folder.glob("*/input.tar.zst")):
        truth = json.loads((case.parent / "truth.json").read_text())
        evidence = load(case)
        taken = list(captured(evidence))
        if not taken:
            continue
        judged = list(replay(taken, BOTH))
        whole = engine_state.assess(contexts.build(evidence, DIAGNOSE))
        advanced = whole.last_advance - taken[0].unix + taken[0].now if whole and whole.last_advance else None
        events = [one for one in judged if one.judgement.event is Event.STOPPED]
        found.append(
            {
                "case": case.parent.name,
                "class": truth.get("accept_class"),
                "looks": len(judged),
                "seconds": round(judged[-1].now - judged[0].now, 1),
                "stopped_at": round(events[0].now, 1) if events else None,
                "seconds_after_last_advance": round(events[0].now - advanced, 1) if events and advanced else None,
                "states": [one.judgement.state.value for one in judged][-4:],
                "reason": judged[-1].judgement.reason,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--stops", type=int, default=24, help="injected per signals and traffic")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"period_seconds": DEFAULTS.period, "cost": cost()}
    with ProcessPoolExecutor(given.jobs) as pool:
        injected = [
            pool.submit(stops, traffic, engine, planes, given.stops)
            for engine, planes in VIEWS
            for traffic in Traffic
            if traffic is not Traffic.IDLE
        ]
        days = [
            pool.submit(one_day, traffic, engine, planes, int(given.hours * 3600))
            for engine, planes in DAY_VIEWS
            for traffic in Traffic
        ]
        rows = [row for future in injected for row in future.result()]
        result["stops_by_traffic"] = table(rows, "traffic")
        result["stops_by_kind"] = table(rows, "stop")
        usable = [row for row in rows if judged(row)]
        quick = [row["seconds"] is not None and row["seconds"] <= 15 for row in usable]
        result["stops_within_15_s"] = round(sum(quick) / max(len(quick), 1), 4)
        result["stops_judged"] = len(quick)
        result["assumed"] = {"scrape_retry_fails": RETRY_FAILS, "seconds_between_gpu_samples": DEFAULTS.sample_seconds}
        result["days"] = [future.result() for future in days]
        result["false_alarms"] = sum(one["false_alarms"] for one in result["days"])
    if given.cases is not None:
        result["cases"] = cases(given.cases)
    text = json.dumps(result, indent=1)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(json.dumps({key: result[key] for key in ("cost", "stops_within_15_s", "stops_judged", "false_alarms")}))


if __name__ == "__main__":
    main()
