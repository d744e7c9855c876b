"""Simulate fleets through the real judge, and write the tables of docs/measured.md (Admission statistics).

    python tools/simulate_fleet.py                    # about 5 minutes on two cores
    python tools/simulate_fleet.py --scale 0.05       # a look, printed only
    python tools/simulate_fleet.py --study latency    # one study anew, the other tables as they are
    python tools/simulate_fleet.py --tables-only      # the tables anew, without a simulation

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

from admission_tables import HEADING, section

from rankmuster.baseline.build_history import build_history
from rankmuster.baseline.judge import judge
from rankmuster.baseline.simulate_studies import questions
from rankmuster.evidence.nccl_tests import read_text
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, HistoryValue, RunState

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOUND = ROOT / "docs" / "measured" / "admission-statistics.json"
PAGE = ROOT / "docs" / "measured.md"
CAPTURED = ROOT / "tests" / "evidence" / "nccl_tests_h200"
HEALTHY = tuple(f"ar_{number}" for number in range(1, 9))
CHANGED = ("ar_2ch", "ar_ll", "nt_ar_nop2p", "ar_contended")


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


def captured() -> list[dict[str, Any]]:
    """The captured runs on four H200s through the judge: each healthy one against the other seven, changed ones against
    all eight."""
    runs = {name: read_text((CAPTURED / f"{name}.txt").read_bytes(), name) for name in (*HEALTHY, *CHANGED)}
    rows = []
    for name, run in runs.items():
        history = build_history(_stored(runs[one], number) for number, one in enumerate(HEALTHY) if one != name)
        rows += [
            {
                "run": name,
                "regime": found.regime.value,
                "in_place": found.in_place,
                "standing": found.standing.value,
                "statistic": found.statistic,
                "refuse_below": found.refuse_below,
            }
            for found in judge([run], history)
        ]
    return rows


def _stored(run: BenchmarkRun, number: int) -> HistoryRun:
    values = tuple(HistoryValue(m.cell, m.time_us, m.busbw) for m in run.measurements)
    return HistoryRun(
        str(number), "h200x4", "h200x4", "one", None, "all-reduce", run.tool, number, RunState.COMPLETE, values=values
    )


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
        found = json.loads(FOUND.read_text()) | {"captured": captured()}
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
        write_page(section(found))
        return
    # One thread each: numpy's own would fight over the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = simulate(given.seed, given.scale, given.processes, given.study)
    if given.study is not None:
        kept = json.loads(FOUND.read_text())
        found = {**found, "studies": {**kept["studies"], **found["studies"]}}
        found |= {name: kept[name] + found[name] for name in ("seconds", "cpu_seconds")}
    found["captured"] = captured()
    text = section(found)
    if given.scale == 1:
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
        write_page(text)
    print(text)


if __name__ == "__main__":
    main()
