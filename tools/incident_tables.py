"""The tables of docs/measured.md, Incidents: from what the drill, the crash runs and the simulation wrote."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

HEADING = "## Incidents"

DRILLS = (
    (
        "incident-drill-gloo.jsonl",
        "### From a fault to the first good token, without a GPU",
        "`make drill-incidents`: {ranks} gloo ranks in a small serving engine under `rankmuster run`, a real HAProxy "
        "before it, `rankmuster watch` (a look in 4 s) and `rankmuster incident serve` beside it, six clients that ask "
        "again; "
        "one machine of two cores, 2026-11-30.",
    ),
    (
        "incident-drill-h200x2.jsonl",
        "### The same on two GPUs",
        "`python tools/gpu_incident.py --gpus 2`: {ranks} ranks on two NVIDIA H200 (no four were to be had), NCCL, "
        "torch "
        "2.11.0+cu130, driver 580.159.04, 32 cores, NVLink multicast off, 2026-11-30; eager, and decoding "
        "as a CUDA graph.",
    ),
)
PARTS = ("detection", "evidence", "decide", "terminate", "engine", "verify", "overhead", "total")
BARS = {"detection": 15.0, "evidence": 20.0, "overhead": 5.0}
"""Seconds at most; `overhead` is what is ours beyond detection, evidence and the engine's own start."""


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} / {max(values):.1f}" if values else "-"


def _parts(rows: list[dict[str, Any]]) -> list[str]:
    """Of each part, over all rows that have it."""
    return [_seconds([row["seconds"][part] for row in rows if row["seconds"].get(part) is not None]) for part in PARTS]


def _drill(rows: list[dict[str, Any]], heading: str, words: str) -> list[str]:
    lines = [heading, "", words.format(ranks=rows[0]["ranks"]), ""]
    right = sum(row["right"] for row in rows)
    first = sum(row["evidence_first"] for row in rows)
    lines += [
        f"{right} of {len(rows)} runs right (verdict, decision, bars and requests); evidence on disk before anything "
        f"was ended in {first}; {sum(row['requests'] for row in rows)} requests, "
        f"{sum(row['lost'] for row in rows)} lost without an error, {sum(row['after_stop'] for row in rows)} sent to "
        "the sick group after its traffic was stopped.",
        "",
        "Seconds, median / worst. `engine`: its own start. `overhead`: total without detection, evidence and engine; "
        "about a second of it is the clients' own wait before they ask again.",
        "",
    ]
    modes = list(dict.fromkeys((row["fault"], row["graph"]) for row in rows))
    table = []
    for fault, graph in modes:
        of = [row for row in rows if (row["fault"], row["graph"]) == (fault, graph)]
        said = ", ".join(sorted({row["said"] for row in of}))
        good = f"{sum(row['right'] for row in of)} of {len(of)}"
        seconds = _parts(of)
        table.append([fault + (" (graph)" if graph else ""), good, said, *seconds])
    every = _parts(rows)
    table.append(["**all**", f"{right} of {len(rows)}", "", *every])
    table.append(["*bar*", "", "", *(f"{BARS[part]:g}" if part in BARS else "" for part in PARTS)])
    return [*lines, *_table(["fault", "right", "verdict", *PARTS], table)]


def _simulation(found: dict[str, Any]) -> list[str]:
    lines = [
        "### A thousand instances at once, in simulated time",
        "",
        f"`make simulate-incidents`: {found['instances']} instances, ten seeds a case; the state machine, the "
        "decision, the limits and the breaker are the real ones, times and failures of actuators are assumed. "
        f"`rebuilds_at_once` is {found['limits']['rebuilds_at_once']}, everything else as by default.",
        "",
    ]
    table = []
    for name, case in found["cases"].items():
        after, closed = case["breaker_after_s"], case["breaker_closed_after_heal_s"]
        table.append(
            [
                name,
                f"{case['breaker_opened_in']} of {case['seeds']}",
                "-" if after["worst"] is None else f"{after['median']:.1f} / {after['worst']:.1f}",
                case["rebuilds_begun_in_outage"],
                "-" if closed["worst"] is None else f"{closed['median']:.0f} / {closed['worst']:.0f}",
                f"{case['nodes_fenced_by_drift']} / {case['nodes_fenced_by_fabric']}",
                f"{case['hit_by_outage'] - case['of_them_not_served_again']} of {case['hit_by_outage']}",
                "-" if case["all_served_after_heal_s"] is None else f"{case['all_served_after_heal_s'] / 60:.0f}",
                f"{case['single_faults_recovered']} of {case['single_faults']}",
            ]
        )
    head = [
        "case",
        "breaker opened in",
        "after s",
        "rebuilds begun in the outage, at most",
        "closed s after healing",
        "nodes fenced by drift / fabric",
        "hit and served again",
        "all served, min after healing",
        "single faults recovered",
    ]
    return [*lines, *_table(head, table)]


def _crashes(found: dict[str, Any]) -> list[str]:
    killed, again = found["killed_after"], found["actions_repeated"]
    return [
        "### Runners that are killed",
        "",
        "`make crash-incidents`: real processes over a real journal, each killed by SIGKILL at one place and taken up "
        "by the next runner. The world lies in a file and counts what was done to it: nothing may be done twice that "
        "is not safe to repeat, nothing be forgotten, evidence come before the kill, and the instance serve again.",
        "",
        f"{found['runs']} runs ({found['two_at_once']} with two runners at once), {found['runners_started']} runners, "
        f"{found['runners_killed']} of them killed; {found['wrong']} runs in which anything was wrong. "
        f"{found['actions_found_done']} actions were found done after a crash; the others were asked for again, each "
        "bound to its incarnation and operation.",
        "",
        *_table(["killed right after", *(name.replace("_", " ") for name in killed)], [["runners", *killed.values()]]),
        *_table(["asked for again", *(name.replace("_", " ") for name in again)], [["times", *again.values()]]),
    ]


def section(measured: Path) -> str:
    """The part of docs/measured.md, with its heading; what was not measured yet is left out."""
    lines = [HEADING, ""]
    for name, heading, words in DRILLS:
        if (measured / name).exists():
            rows = [json.loads(line) for line in (measured / name).read_text().splitlines() if line.strip()]
            lines += _drill(rows, heading, words)
    if (measured / "incident-crashes.json").exists():
        lines += _crashes(json.loads((measured / "incident-crashes.json").read_text()))
    if (measured / "incident-simulation.json").exists():
        lines += _simulation(json.loads((measured / "incident-simulation.json").read_text()))
    return "\n".join(lines) + "\n"
