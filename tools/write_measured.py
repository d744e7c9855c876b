"""Writes docs/measured.md: every figure in it is computed here, from the packed cases and from a run of the benchmark.

    python tools/write_measured.py

The captures were recorded with tools/capture on the machine that the page names; the timings are of this machine.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from typing import Any

import admission_tables
import baseline_tables
import drill_tables
import incident_tables
import kube_tables

from rankmuster.diagnose import context
from rankmuster.diagnose.detectors import late_arrival
from rankmuster.diagnose.run import diagnose
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role

ROOT = pathlib.Path(__file__).parent.parent
MEASURED = ROOT / "docs" / "measured"
CASES = sorted(path.parent for path in (ROOT / "tests" / "cases").glob("*/truth.json"))

HEAD = """# What was measured

Written by `python tools/write_measured.py`, which computes the tables below.

## Captures on GPUs

`tools/capture` ran a small serving-like loop (tensor parallel over four or two ranks, or two by two with pipeline
stages; NCCL 2.28.9, torch 2.11.0+cu130, driver 580.159.04, CUDA 13.0) on four NVIDIA H200 of one virtual machine on
2026-11-29, with NVLink multicast off, and made one fault per run. The given captures are of the same kind of machine.
Each is kept in `tests/cases` with what is right, and `make test` compares the verdict with it. Those named `collect-`
are bundles that `rankmuster collect` took on such a machine on 2026-11-30.

What the captures of this sitting taught:

- A wrong size does not stop its own collective: it completes on every rank, and the group stops two operations later,
  where one rank has finished what the others have not. Without looking back, the finished rank's peers look stalled.
- A rank that is 7 ms late per step can be invisible in the all-reduce alone: one peer waits in the broadcast before it.
- A send that is skipped once does not stop a pipeline whose next send fits: it runs on, shifted by one.
- In a store time-out before the first collective the rank that waited exits first, and the absent one lives.
- In a pipeline with one slow rank the tensor group of the other stage looks late as well: its rank is held in a send.
- A dump with stacks of 2,000 entries took 5 to 9 s from the request to the file; the recorder's window then often lies
  wholly inside the time it disturbed.

"""


def verdicts() -> str:
    """The verdict of every packed case."""
    lines = [
        "| case | verdict | culprits | progress | confidence | right |",
        "|---|---|---|---|---|---|",
    ]
    right = 0
    for case in CASES:
        truth = json.loads((case / "truth.json").read_text())
        verdict = diagnose(load(case / "input.tar.zst")).verdict
        named = sorted(s.rank for s in verdict.suspects if s.role is Role.CULPRIT and s.rank is not None)
        name = verdict.class_.value + (f"/{verdict.subclass.value}" if verdict.subclass else "")
        allowed = truth.get("culprits", truth.get("culprits_allowed", []))
        good = verdict.class_.value in truth["accept_class"] and set(named) <= set(allowed)
        good = good and ("culprits" not in truth or named == sorted(truth["culprits"]))
        right += good
        confidence = verdict.confidence.value if verdict.confidence else "-"
        lines.append(
            f"| {case.name} | {name} | {', '.join(map(str, named)) or '-'} | {verdict.progress.value} | {confidence} | "
            f"{'yes' if good else 'NO'} |"
        )
    return f"## Verdicts\n\n{right} of {len(CASES)} packed cases are right.\n\n" + "\n".join(lines) + "\n\n"


def lateness() -> str:
    """What late arrival measures where durations exist, the time before any dump only."""
    lines = [
        "| case | group | rank | share of wall time | in long waits | of all waiting | steady | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        aligned = context.build(load(case / "input.tar.zst"), DEFAULTS)
        for group, late in late_arrival.measured(aligned):
            lines.append(
                f"| {case.name} | {group.label} | {late.rank} | {late.share:.2f} | {late.long_share:.2f} | "
                f"{late.dominance:.2f} | {late.steady:.2f} | {late.rounds} |"
            )
    text = (
        "## Late arrival\n\nWindows shorter than "
        f"{DEFAULTS.late_span_seconds:g} s, and what was enqueued after a dump with stacks was asked for, are not "
        "judged and not shown.\n\n"
    )
    return text + "\n".join(lines) + "\n\n"


def collecting() -> str:
    """What `rankmuster collect` did on GPUs: docs/measured/drill-h200x4.jsonl, as the drill wrote it."""
    lines = (MEASURED / "drill-h200x4.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    right = sum(row["right"] for row in rows)
    longest = max(row["seconds"]["collect"] for row in rows)
    total = max(row["seconds"]["collect"] + row["seconds"]["diagnose"] for row in rows)
    text = [
        "## Collecting on GPUs\n",
        "`python -m rankmuster.drill run ... --backend nccl --ranks 4 --ras-risk never,after_stop_confirmed,always` on "
        "the same kind of machine (four NVIDIA H200, 64 cores, NCCL 2.28.9, torch 2.11.0+cu130, driver 580.159.04), "
        "2026-11-30: a real job, a fault injected, `rankmuster collect --deadline 20`, `rankmuster diagnose`. The "
        "settings of one fault are tried on one job, in this order: after the first, the dumps are there already.\n",
        f"{right} of {len(rows)} named what happened; the slowest collect took {longest:.1f} s, with diagnose "
        f"{total:.1f} s.\n",
        "| fault on rank | ras_risk | verdict | named | collect s | diagnose s | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        named = ", ".join(map(str, row["named"])) or "-"
        risk = row["setting"].partition("=")[2]
        seconds = row["seconds"]
        who = f"{row['fault']} on {row['culprit']}" if row["culprit"] is not None else row["fault"]
        text.append(
            f"| {who} | {risk} | {row['said']} | {named} | {seconds['collect']:.1f} | {seconds['diagnose']:.1f} | "
            f"{'yes' if row['right'] else 'NO'} |"
        )
    return "\n".join(text) + "\n\n"


def _change(ratio: dict[str, float]) -> str:
    """A ratio with its interval as a change in per cent."""
    return f"{100 * (ratio['value'] - 1):+.2f} % ({100 * (ratio['low'] - 1):+.2f} to {100 * (ratio['high'] - 1):+.2f})"


def overhead() -> str:
    """What a collect every 30 s costs a healthy job: docs/measured/overhead-*.json, as the benchmark wrote them."""
    text = [
        "### What it costs a healthy job\n",
        "`python benchmarks/collect_overhead.py --backend nccl --ranks 4`: pairs of windows of one job, one with a "
        "collect at its start and one without, in random order; the intervals are bootstrapped.\n",
        "| job | pairs | window s | collect s | median step ms | median change | mean change |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(MEASURED.glob("overhead-*.json")):
        found = json.loads(path.read_text())
        job, collects = found["job"], found["collects"]["seconds"]
        kind = "CUDA-graph replay" if job["graph"] else "eager, launch-bound"
        changes = [_change(one) for one in (found["comparison"]["median"], found["comparison"]["mean"])]
        step = statistics.median(window["median_step_ms"] for window in found["windows"])
        text.append(
            f"| {kind}, {job['layers']} all-reduces a step | {found['comparison']['pairs']} | "
            f"{found['window_seconds']:.0f} | {min(collects):.1f} to {max(collects):.1f} | {step:.2f} | "
            f"{changes[0]} | {changes[1]} |"
        )
    text.append("\nThe launch-bound job's own windows differ by more than any effect; the replayed one is steady.")
    return "\n".join(text) + "\n\n"


def watching() -> str:
    """How soon the watch tells a stop, and what it calls a stop that is none: docs/measured/watch-replay.json."""
    found = json.loads((MEASURED / "watch-replay.json").read_text())
    assumed, cost = found["assumed"], found["cost"]
    text = [
        "## Watching\n",
        "`make watch-replay`: synthetic signals of an instance of four ranks, and those of the captures, through the "
        f"watch's own window, look and model, a look in {found['period_seconds']:g} s. Time runs as fast as the replay "
        "can; what a scraper meets (late, doubled and failed scrapes, outages of 30 to 400 s, a wall clock set by "
        "hours) is random by fixed seeds. Assumed, not measured: a scrape that failed and is asked again at once fails "
        f"again {assumed['scrape_retry_fails']:.0%} of the time, in an outage always. GPUs are sampled at each "
        f"look, and {assumed['seconds_between_gpu_samples']:g} s after it where it gave reason.\n",
        "### Traffic without a fault\n",
        "| traffic | simulated hours | looks | alarms |",
        "|---|---|---|---|",
    ]
    for traffic in dict.fromkeys(row["traffic"] for row in found["days"]):
        days = [row for row in found["days"] if row["traffic"] == traffic]
        each = ", ".join(row["signals"] for row in days)
        text.append(
            f"| {traffic} | {len(days)} x {days[0]['hours']:g} ({each}) | {sum(row['looks'] for row in days)} | "
            f"{sum(row['false_alarms'] for row in days)} |"
        )
    text += [
        "\n### Stops\n",
        f"{found['stops_within_15_s']:.1%} of {found['stops_judged']} stops that the watch could tell were told within "
        "15 s of holding up a request. Left out, and counted: stops that the planes cannot show (counters that move "
        "when requests end; a scheduler that hangs, for GPUs), stops before a first token, and those in an outage of "
        "every plane that could show them. `hardware` is without any engine's page.\n",
        *_stops(found["stops_by_kind"], "stop"),
        "",
        *_stops(found["stops_by_traffic"], "traffic"),
    ]
    captures = [row for row in found.get("cases", []) if row["seconds_after_last_advance"] is not None]
    if captures:
        seconds = [row["seconds_after_last_advance"] for row in captures]
        text.append(
            f"\nOf the captures, {len(captures)} hold a stop after an advance that can be dated: told "
            f"{statistics.median(seconds):.1f} s after it in the median, {max(seconds):.1f} s at most."
        )
    milliseconds = ", ".join(f"{value:g} ms {state}" for state, value in cost["cpu_ms_per_look"].items())
    text.append(
        f"\nA look at {cost['gpus']} GPUs and one server takes {milliseconds} of the processor "
        f"({cost['share_of_one_core_at_5_s']:.2%} of a core at most); window and model hold "
        f"{cost['memory_kb_window_and_model']} KB. `python benchmarks/watch_look.py` tells the parts."
    )
    return "\n".join(text) + "\n\n"


def _stops(rows: list[dict[str, Any]], by: str) -> list[str]:
    lines = [
        f"| {by} | planes | judged | within 15 s | p50 s | p95 s | max s | culprit named right | "
        "left out: not visible, before a token, no answer |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row[by], row["signals"])):
        if not row["judged"]:
            continue
        times = " | ".join("over 45" if value is None else f"{value:.1f}" for value in row["seconds_p50_p95_max"])
        named = "-" if row["culprit_named"] is None else f"{row['culprit_named']:.0%}"
        left_out = [row[key] for key in ("not_visible_to_these_planes", "before_first_token", "no_plane_answered")]
        lines.append(
            f"| {row[by]} | {row['signals']} | {row['judged']} | {row['within_15_s']:.0%} | {times} | {named} | "
            f"{', '.join(map(str, left_out))} |"
        )
    return lines


def watching_on_gpus() -> str:
    """The watch beside real jobs on GPUs: docs/measured/watch-drill-*.jsonl, as the drill wrote them."""
    rows = [
        json.loads(line)
        for path in sorted(MEASURED.glob("watch-drill-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    faults, controls = [row for row in rows if not row["control"]], [row for row in rows if row["control"]]
    seconds = sorted(row["seconds"] for row in faults if row["seconds"] is not None)
    named = [row["naming"] for row in faults]
    watched = sum(row["watched_seconds"] for row in controls)
    cpu = [100 * row["cpu_share"] for row in controls if row["cpu_share"] is not None]
    rss = [row["rss"] / 1e6 for row in controls if row["rss"]]
    text = [
        "### On GPUs\n",
        "`python -m rankmuster.drill watch FAULT... --control NAME... --backend nccl --ranks 2`, with and without "
        "`--graph`, on a machine with two NVIDIA H200 (32 cores, NCCL 2.28.9, torch 2.11.0+cu130, Python 3.12), "
        "2026-11-30: a serving loop with requests, chunked prompts and vLLM's page, the real command beside it at its "
        "defaults, the fault at a random moment of a look. Seconds run from the end of the last step that was finished "
        "to the state file that says so. Of two ranks nobody has a majority: who sent another operation or size is "
        "not told, and is not to be.\n",
        f"{sum(one <= 15 for one in seconds)} of {len(faults)} faults were told within 15 s (p50 "
        f"{statistics.median(seconds):.1f} s, max {seconds[-1]:.1f} s); the watch itself named the rank in "
        f"{named.count('right')}, a wrong one in {named.count('wrong')}. {len(controls)} controls over {watched:.0f} s "
        f"had {sum(len(row['alarms']) for row in rows)} alarms. Beside these the watch with its children took "
        f"{min(cpu):.2f} to {max(cpu):.2f} % of one core, its start within, and {min(rss):.0f} to {max(rss):.0f} MB. "
        "GPUs were sampled twice in each look then; since then the second time only where the look gave reason, "
        f"because NVLink bytes of one GPU take {_nvlink_ms():.1f} ms of a processor to read, and what else is read of "
        f"it {_rest_ms():.1f} ms (`python benchmarks/nvml_calls.py`, docs/measured/nvml-calls-h200x2.txt).\n",
        "| fault | job | told after s | named by the watch | verdict on its bundle | right |",
        "|---|---|---|---|---|---|",
    ]
    for row in faults:
        told = "never" if row["seconds"] is None else f"{row['seconds']:.1f}"
        text.append(
            f"| {row['name']} | {'CUDA graph' if row['graph'] else 'eager'} | {told} | {row['naming']} | "
            f"{row['verdict'] or 'not waited for'} | {'yes' if row['right'] else 'NO'} |"
        )
    text += ["", "| control | job | seconds | looks in each state | alarms |", "|---|---|---|---|---|"]
    for row in controls:
        states = ", ".join(f"{state} {looks}" for state, looks in row["states"].items())
        text.append(
            f"| {row['name']} | {'CUDA graph' if row['graph'] else 'eager'} | {row['watched_seconds']:.0f} | {states} "
            f"| {'; '.join(row['alarms']) or '0'} |"
        )
    return "\n".join(text) + "\n\n"


def _nvml_ms() -> dict[str, float]:
    """Milliseconds of a processor per call and GPU, asked with pauses between."""
    text = (MEASURED / "nvml-calls-h200x2.txt").read_text().partition("gap 0.25")[2]
    rows = (line.partition(" cpu ") for line in text.splitlines() if " cpu " in line)
    return {name.strip(): float(rest.split()[0]) for name, _, rest in rows}


def _nvlink_ms() -> float:
    return _nvml_ms()["fields 138,139"]


def _rest_ms() -> float:
    found = _nvml_ms()
    return found["util"] + found["power"]


def watching_costs() -> str:
    """What the watch costs the job beside it: docs/measured/watch-overhead-*.json, as the benchmark wrote them."""
    text = [
        "### What the watch costs the job\n",
        "`python benchmarks/watch_overhead.py --backend nccl --ranks 2`: pairs of windows of one job, one with the "
        "watch and one without, in random order; tokens per second, intervals bootstrapped.\n",
        "| job | pairs | window s | change of tokens/s | watch: % of a core | MB |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(MEASURED.glob("watch-overhead-*.json")):
        found = json.loads(path.read_text())
        ratio, watches, pairs = found["tokens"], found["watches"], found["step_time"]["pairs"]
        kind = "CUDA graph" if found["job"]["graph"] else "eager"
        text.append(
            f"| {kind}, {found['job']['layers']} all-reduces a step | {pairs} | {found['window_seconds']:.0f} | "
            f"{_change(ratio)} | "
            f"{100 * watches['cpu_share_mean']:.2f} | {watches['rss_mb_max']:.0f} |"
        )
    return "\n".join(text) + "\n\n"


def dumps_on_cores() -> str:
    """How reading dumps goes with cores: docs/measured/flight-cores.json, as the benchmark wrote it."""
    found = json.loads((MEASURED / "flight-cores.json").read_text())
    text = [
        "## Flight Recorder dumps on many cores\n",
        f"`python benchmarks/flight_cores.py`, {found['date']}, {found['processor']}, {found['cores']} cores, Python "
        f"{found['python']}; best of {found['runs']}. Times of one processor do not compare with another's. How it "
        "goes beside other tools, and who is right, is in [RESULTS.md](../benchmarks/RESULTS.md).\n",
        "| ranks | MB of dumps | cores | seconds | processor seconds | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        text.append(
            f"| {row['ranks']:,} | {row['dump_mb']} | {row['cores']} | {row['seconds']:.2f} | "
            f"{row['processor_seconds']:.2f} | {row['peak_mb']} |"
        )
    return "\n".join(text) + "\n\n"


def admission() -> str:
    """Rates of the judgement on simulated fleets: docs/measured/admission-statistics.json, as simulated."""
    return admission_tables.section(json.loads((MEASURED / "admission-statistics.json").read_text())) + "\n"


def _measured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text())
    return found


def baselines() -> str:
    """Admission on GPUs, the history's benchmark and drift on simulated fleets, as their tools wrote them."""
    return (
        baseline_tables.on_gpus(_measured("gpu-admission"))
        + baseline_tables.history(_measured("history"))
        + baseline_tables.drift(_measured("drift-fleet"))
    )


def timing() -> str:
    """The benchmark's table."""
    command = [sys.executable, str(ROOT / "benchmarks" / "diagnose_cases.py")]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    when = datetime.date.today().isoformat()
    where = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    told = f"`make bench-cases`, {when}, {where}; best of three, other work on the machine."
    return f"## Time and memory\n\n{told}\n\n```\n{table}```\n"


def main() -> None:
    (ROOT / "docs" / "measured.md").write_text(
        HEAD
        + verdicts()
        + lateness()
        + collecting()
        + overhead()
        + watching()
        + watching_on_gpus()
        + watching_costs()
        + dumps_on_cores()
        + baselines()
        + admission()
        + incident_tables.section(MEASURED)
        + drill_tables.section(MEASURED)
        + "\n"
        + kube_tables.section(MEASURED)
        + timing()
    )


if __name__ == "__main__":
    main()
