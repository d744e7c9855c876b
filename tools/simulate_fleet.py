"""Simulate fleets through the real judge, and write the tables of docs/measured.md (Admission statistics).

    python tools/simulate_fleet.py                    # about 5 minutes on two cores
    python tools/simulate_fleet.py --scale 0.05       # a look, printed only
    python tools/simulate_fleet.py --study latency    # one study anew, the other tables as they are
    python tools/simulate_fleet.py --tables-only      # the tables anew from docs/measured/admission-statistics.json

Every row has a seed of its own from --seed and its place, so that it does not depend on how many processes work.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import re
import resource
import sys
import time
import zlib
from typing import Any

from rankmuster.baseline.simulate_studies import questions

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOUND = ROOT / "docs" / "measured" / "admission-statistics.json"
PAGE = ROOT / "docs" / "measured.md"
HEADING = "## Admission statistics"
INTRODUCTION = """\
`python tools/simulate_fleet.py` (seed {seed}; {cpu} s of one core): fleets of simulated nodes whose results go through
the real judge (`docs/baseline-statistics.md`). Scatter between sizes and processes, and the two modes of small sizes,
are fitted to eight healthy runs on four H200s; spreads of nodes (0.7 %), days (0.2 %) and sessions (0.4 %) are
assumed, with Student's t of 5 degrees of freedom for tails, 1 % of the runs contended (of which a twentieth goes
unnoticed) and 0.5 % errored. Each admission measures two operations of 16 sizes: six groups, four of which may
refuse."""


def _ask(task: tuple[int, int, float]) -> dict[str, Any]:
    place, seed, scale = task
    return questions()[place].ask(seed, scale)


def simulate(seed: int, scale: float, processes: int, only: str | None) -> dict[str, Any]:
    """All studies, or one: name -> rows."""
    asked = [(place, question) for place, question in enumerate(questions()) if only in (None, question.study)]
    tasks = [(place, zlib.crc32(f"{seed}/{place}".encode()), scale) for place, _ in asked]
    started = time.monotonic()
    rows = []
    with multiprocessing.Pool(processes) as pool:
        for row in pool.imap(_ask, tasks):
            rows.append(row)
            print(f"\r{len(rows)} of {len(tasks)} rows", end="", file=sys.stderr, flush=True)
        pool.close()
        pool.join()
    print(file=sys.stderr)
    studies: dict[str, list[dict[str, Any]]] = {}
    for (_, question), row in zip(asked, rows, strict=True):
        studies.setdefault(question.study, []).append(row)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seed": seed,
        "scale": scale,
        "seconds": round(time.monotonic() - started),
        "cpu_seconds": round(used.ru_utime + used.ru_stime),
        "studies": studies,
    }


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _part(row: dict[str, Any], name: str, of: str = "admissions") -> str:
    return f"{100 * row[name] / row[of]:.2f} %" if row[of] else "-"


def _history(row: dict[str, Any]) -> str:
    noise = f", scatter x {row['noise']:g}" if row["noise"] != 1 else ""
    return f"{row['runs']} runs, {row['nodes']} node{'s' if row['nodes'] > 1 else ''}{noise}"


def section(found: dict[str, Any]) -> str:
    """The part of docs/measured.md, with its heading."""
    s = found["studies"]
    lines = [
        HEADING,
        "",
        INTRODUCTION.format(seed=found["seed"], cpu=found["cpu_seconds"]),
        "",
        "### Healthy nodes",
        "",
        "Budget: 1 % of the admissions, all operations, regimes and sizes together. `doubted`: what would be refused "
        "without measuring again.",
        "",
        *_table(
            ["history", "admissions", "refused at once", "doubted", "refused in the end", "latency said to be slow"],
            [
                [_history(r), r["admissions"], *(_part(r, n) for n in ("outright", "doubted", "refused", "latency"))]
                for r in s["healthy"]
            ],
        ),
        "### Bandwidth loss at 16 MiB and above",
        "",
        *_table(
            ["history", "loss", "admissions", "refused at once", "doubted", "refused in the end"],
            [
                [
                    _history(r),
                    f"{r['loss_percent']:.0f} %",
                    r["admissions"],
                    *(_part(r, n) for n in ("outright", "doubted", "refused")),
                ]
                for r in s["found"]
            ],
        ),
        "### Bad nodes inside the history",
        "",
        *_table(
            ["history", "bad nodes in it", "their loss", "new node's loss", "admissions", "refused in the end"],
            [
                [
                    _history(r),
                    f"{r['bad_nodes_percent']:.0f} %",
                    f"{r['bad_loss_percent']:.0f} %",
                    f"{r['loss_percent']:.0f} %",
                    r["admissions"],
                    _part(r, "refused"),
                ]
                for r in s["contaminated"]
            ],
        ),
        "### One bad size, and losses between 64 KiB and 16 MiB",
        "",
        "History of 30 runs of 30 nodes.",
        "",
        *_table(
            ["what", "loss", "admissions", "refused at once", "refused in the end"],
            [
                [name, f"{r['loss_percent']:.0f} %", r["admissions"], _part(r, "outright"), _part(r, "refused")]
                for name, key in (("64 MiB alone", "one size"), ("128 KiB to 8 MiB", "transition"))
                for r in s[key]
            ],
        ),
        "### What can be found up to 64 KiB",
        "",
        "Time longer by the given factor, history of 30 runs of 30 nodes. Two healthy modes stand up to 1.4 apart, so "
        "less than that is not to be told from health by its level. Latency refuses nobody.",
        "",
        *_table(
            ["processes", "time", "admissions", "said to be slow"],
            [
                [r["processes"], f"x {1 / (1 - r['loss_percent'] / 100):.2f}", r["admissions"], _part(r, "latency")]
                for r in s["latency"]
            ],
        ),
        "### A fleet from its first day",
        "",
        "30 days, a tenth of the nodes admitted each day against a history that starts empty and takes in every "
        "complete run (the newest 1,000 count), with 5 % bad nodes from the start.",
        "",
        *_table(
            ["fleet", "nodes", "healthy admissions", "refused", "bad admissions", "their loss", "refused"],
            [
                [
                    r["fleet"],
                    r["nodes"],
                    r["healthy"],
                    _part(r, "healthy_refused", "healthy"),
                    r["bad"],
                    f"{r['loss_percent']:.0f} %",
                    _part(r, "bad_found", "bad"),
                ]
                for r in s["growth"]
            ],
        ),
        "### Changes of a class",
        "",
        "Series over 30 days, searched once; found: a point within 3 days of the change (for a gradual one, of any of "
        "its days). The smallest step that is called one is 1.5 %.",
        "",
        *_table(
            ["class", "runs", "change at 16 MiB and above", "series", "found", "a point elsewhere"],
            [
                [r["class"], r["runs"], r["change"], r["series"], _part(r, "found", "series"), _elsewhere(r)]
                for r in s["changes"]
            ],
        ),
        "### Steps of a single node",
        "",
        *_table(
            ["runs before", "runs after", "loss at 16 MiB and above", "series", "found", "a step elsewhere"],
            [
                [
                    r["before"],
                    r["after"],
                    f"{r['loss_percent']:.0f} %",
                    r["series"],
                    _part(r, "found", "series"),
                    _elsewhere(r),
                ]
                for r in s["node steps"]
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _elsewhere(row: dict[str, Any]) -> str:
    return _part(row, "elsewhere", "series")


def write_page(text: str) -> None:
    """Puts the section into docs/measured.md: in its old place, else where tools/write_measured.py has it."""
    page = PAGE.read_text()
    page = re.sub(rf"^{HEADING}\n.*?(?=^## |\Z)", "", page, flags=re.MULTILINE | re.DOTALL)
    before, heading, after = page.partition("## Time and memory\n")
    PAGE.write_text(f"{before.rstrip()}\n\n{text}\n{heading}{after}".rstrip() + "\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the admissions; other than 1 is printed only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tables-only", action="store_true")
    parser.add_argument("--study", help="simulate one study anew (healthy, found, ...) and keep the other tables")
    given = parser.parse_args()
    if given.tables_only:
        write_page(section(json.loads(FOUND.read_text())))
        return
    # One thread each: numpy's own would fight over the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = simulate(given.seed, given.scale, given.processes, given.study)
    if given.study is not None:
        kept = json.loads(FOUND.read_text())
        found = {**found, "studies": {**kept["studies"], **found["studies"]}}
        found = {**found, **{name: kept[name] + found[name] for name in ("seconds", "cpu_seconds")}}
    text = section(found)
    if given.scale == 1:
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
        write_page(text)
    print(text)


if __name__ == "__main__":
    main()
