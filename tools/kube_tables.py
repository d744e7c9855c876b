"""The tables of docs/measured.md, Kubernetes: from what `make kube-scale` and `make kube-crashes` wrote."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

HEADING = "## Kubernetes"

SCALE, AGAIN, CRASHES = "kube-scale.json", "kube-scale-again.json", "kube-crashes.json"


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _scale(found: dict[str, Any]) -> list[str]:
    lines = [
        "### A fleet",
        "",
        f"`make kube-scale`: {found['nodes']:,} nodes and {found['instances']:,} "
        f"LeaderWorkerSet groups ({found['pods']:,} "
        "pods) in a simulated cluster, a process of its own; the sidecars are "
        "played there, no evidence is handed out; the "
        f"controller is the real one, as a process, its journal in SQLite, its memory read from /proc. "
        f"{found['stopped']} instances stop at once. One machine of two cores for all of it, 2026-11-30. `wide`: "
        f"{found['at_once']} rebuilds at once, and a breaker that does not open; this run begins "
        "where the first one ends, in the same cluster, healed, with a new journal, so its `quiet` is less quiet. "
        "Incidents that were not closed in the seconds given were under way or waiting for their turn.",
        "",
    ]
    names = {
        "memory_mb": "resident memory, quiet (MB)",
        "cores": "processor, quiet, one look at each instance every 5 s (cores)",
        "memory_mb_most": "resident memory, most in the burst (MB, bar 500)",
        "queue_most": "keys in a queue, most",
        "opened": "incidents opened",
        "closed": "closed within the time",
        "outcomes": "how",
        "breaker_opened": "circuit breaker opened",
        "groups_deleted": "groups ended",
        "deleted_twice": "groups ended twice",
        "rebuilds_at_once": "rebuilds under way at once, most",
        "seconds": "seconds",
        "calls_per_incident": "calls of the API server for each incident",
    }
    named = [(key, label) for key, label in names.items() if any(key in run for run in found["runs"])]
    rows = [[label, *(_cell(run.get(key)) for run in found["runs"])] for key, label in named]
    lines += _table(["", *(run["limits"] for run in found["runs"])], rows)
    wide = found["runs"][-1]
    if left := wide.get("not_recovered"):
        lines += ["Of the wide run, closed and not recovered, by the steps that did not end well:", ""]
        lines += [f"- {count}: {_short(why)}" for why, count in left.items()] + [""]
    opened = max(wide["opened"], 1)
    lines += ["Calls for each incident of the wide run, by kind:", ""]
    lines += _table(
        ["call", "for each"],
        [[f"`{kind.strip()}`", f"{count / opened:.1f}"] for kind, count in wide["calls_by_kind"].items()],
    )
    return lines


def _short(why: str) -> str:
    """Without what a step left in its data."""
    return re.sub(r": \{[^}]*\}", "", why).replace("|", ";")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{count:.0f} {name}" for name, count in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:.3f}" if value < 1 else f"{value:.0f}"
    return "-" if value is None else str(value)


def _again(found: dict[str, Any]) -> list[str]:
    wide = found["runs"][-1]
    return [
        "In the run above `decide`, which has 2 s, ran out of them for the incidents that failed or were held. Since "
        f"it is tried again, the same wide run, beside a test run on the same two cores: in {wide['seconds']:.0f} s "
        f"{wide['closed']:.0f} of {wide['opened']:.0f} closed, {_cell(wide['outcomes'])}, no group ended twice, "
        f"{wide['memory_mb_most']:.0f} MB at most.",
        "",
    ]


def _crashes(found: dict[str, Any]) -> list[str]:
    runs = [one for one in found["runs"] if one.get("point")]
    seconds = [one["seconds"] for one in runs if one.get("seconds")]
    kinds = Counter(one["kind"] for one in runs)
    points = len({(one["kind"], one["point"]) for one in runs})
    return [
        "### The controller killed at every step",
        "",
        "`make kube-crashes`: each run is a cluster of processes (an API server "
        "and controllers of our own, three nodes with "
        "their agents, an instance of two pods with sidecars, the controller); a "
        "rank is frozen, and the controller is killed "
        "when the n-th event of the incident is in the journal, or when its "
        "n-th change was made in the API server and the "
        "answer had not come; then it is started again. One machine of two cores, 2026-11-30.",
        "",
        f"{len(runs)} runs (at {' and at '.join(f'{count} {kind}s' for kind, count in sorted(kinds.items()))}; "
        f"{points} different points), {found['failed']} failed: in every other one the "
        "gate was closed and the evidence was out of the "
        "pods before anything was deleted, the group was made anew once, the "
        "node was tested again and let in, and one "
        "incident was closed. From the fault to the end of the incident "
        f"{statistics.median(seconds):.0f} s in the median, "
        f"{max(seconds):.0f} s at most, the restart of the controller included.",
        "",
    ]


def section(folder: Path) -> str:
    """Empty where nothing was measured."""
    lines: list[str] = []
    if (folder / SCALE).exists():
        lines += _scale(json.loads((folder / SCALE).read_text(encoding="utf-8")))
    if (folder / AGAIN).exists():
        lines += _again(json.loads((folder / AGAIN).read_text(encoding="utf-8")))
    if (folder / CRASHES).exists():
        lines += _crashes(json.loads((folder / CRASHES).read_text(encoding="utf-8")))
    return "\n".join([HEADING, "", *lines]) + "\n" if lines else ""
