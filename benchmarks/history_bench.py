"""What one admission decision costs when the history holds a million results, on SQLite and on PostgreSQL.

    python benchmarks/history_bench.py [--results 1000000] [--on sqlite] [--on postgresql] [--output FILE]

The worst case: all of them in one class, 1,000 nodes with a run a day. A decision is what `admit` does with the
history: the baseline of the class, the classes of its kin, and the judgement of one run. It is measured twice: the
first one of a process, as the command has it (imports aside), and one after the other in one process, as a server has
it. EXPLAIN shows what the large queries read.

PostgreSQL is a server of its own from Debian's package (tests/postgres_server.py), in a temporary folder, fsync on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, event

from rankmuster.baseline.judge import judge
from rankmuster.model.benchmark import (
    BenchmarkRun,
    Cell,
    HistoryRun,
    HistoryValue,
    Measurement,
    Operation,
    RunState,
)
from rankmuster.store.history import History

ROOT = Path(__file__).parents[1]

NODES = 1000

SIZES = tuple(1 << power for power in range(14, 25))
"""16 KiB to 16 MiB; with three operations 33 cells."""

CELLS = tuple(
    Cell(operation, size, "bfloat16")
    for operation in (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.ALL_TO_ALL)
    for size in SIZES
)

CLASS, KIN, PROFILE = "sha256:" + "c" * 64, "sha256:" + "f" * 64, "tp8-decode@0123456789ab"

DAY = 86_400.0

START = 1_760_000_000.0

GOAL_S = 0.2
"""The decision's limit."""


def results(count: int) -> Iterator[HistoryRun]:
    """Runs with `count` results in one class; of a kin class a hundredth of that."""
    noise = np.random.default_rng(1)
    for number in range(-(-count // len(CELLS))):
        yield _run(number, CLASS, "Simple", noise)
        if number % 100 == 1:
            yield _run(number, "sha256:" + "d" * 64, "LL", noise)


def _run(number: int, class_hash: str, protocol: str, noise: np.random.Generator) -> HistoryRun:
    day, node = divmod(number, NODES)
    factors = noise.lognormal(0, 0.01, len(CELLS)).tolist()
    return HistoryRun(
        record=f"sha256:{number:032x}{class_hash[7:39]}",
        class_hash=class_hash,
        kin_hash=KIN,
        node_hash=f"sha256:{node:064x}",
        host=f"node-{node}",
        profile=PROFILE,
        tool="built-in",
        started_at=START + day * DAY + node,
        state=RunState.COMPLETE if number % 50 else RunState.CONTENDED,
        settings=(("NCCL_PROTO", protocol),),
        values=tuple(
            HistoryValue(cell, 100 * factor, 400 / factor, 95 * factor, 99 * factor, 130 * factor, 2.0, 1.0)
            for cell, factor in zip(CELLS, factors, strict=True)
        ),
    )


def decide(history: History) -> dict[str, float]:
    """One decision; seconds of its parts."""
    run = BenchmarkRun(
        source="benchmark",
        tool="built-in",
        tool_version=None,
        nccl_version=None,
        started_at=START,
        state=RunState.COMPLETE,
        reason="",
        ranks=(),
        measurements=tuple(Measurement(cell, 101.0, 400.0, 399.0, 0) for cell in CELLS),
    )
    began = time.perf_counter()
    found = history.class_history(CLASS, PROFILE)
    read = time.perf_counter()
    kin = history.kin_classes(KIN, PROFILE)
    looked = time.perf_counter()
    judged = judge([run], found)
    ended = time.perf_counter()
    assert found.records
    assert len(kin) == 2
    assert judged
    return {"class": read - began, "kin": looked - read, "judge": ended - looked, "decision": ended - began}


def fresh(url: str) -> dict[str, float]:
    """The first decision of a process, with the opening."""
    began = time.perf_counter()
    with History.open(url, create=False) as history:
        opened = time.perf_counter() - began
        return {"open": opened, **decide(history)}


def plans(history: History) -> list[str]:
    """What the queries of a decision read, of those that read runs or results."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        seen.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    decide(history)
    event.remove(Engine, "before_cursor_execute", note)
    found = []
    with history.reading("explaining") as connection:
        words = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
        for statement, parameters in seen:
            if "FROM rankmuster_result" in statement or "FROM rankmuster_run" in statement:
                rows = connection.exec_driver_sql(words + statement, parameters)
                lines = [str(row[-1]).strip() for row in rows]
                found += [line[:110] for line in lines if "SCAN" in line.upper() or "SEARCH" in line]
    return found


def measure(url: str, count: int, rounds: int) -> dict[str, Any]:
    """Fills the history at `url`, decides, and explains."""
    began = time.perf_counter()
    with History.open(url) as history:
        runs = history.put_many(results(count))
    filled = time.perf_counter() - began
    again = [sys.executable, __file__, "--fresh", url]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    firsts = [
        json.loads(subprocess.run(again, check=True, capture_output=True, text=True, env=environment).stdout)
        for _ in range(rounds)
    ]
    with History.open(url, create=False) as history:
        decide(history)
        warm = [decide(history) for _ in range(rounds)]
        explained = plans(history)
    return {
        "runs": runs,
        "results": runs * len(CELLS),
        "fill_s": round(filled, 1),
        "first_in_a_process": _table(firsts),
        "again": _table(warm),
        "plan": explained,
    }


def _table(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Milliseconds: the median and the longest."""
    return {
        name: {
            "median_ms": round(1e3 * statistics.median(one[name] for one in rounds), 1),
            "longest_ms": round(1e3 * max(one[name] for one in rounds), 1),
        }
        for name in rounds[0]
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--on", action="append", choices=("sqlite", "postgresql"))
    parser.add_argument("--output", type=Path, help="the figures as JSON")
    parser.add_argument("--fresh", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fresh:
        print(json.dumps(fresh(given.fresh)))
        return 0
    figures: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": sys.version.split()[0],
    }
    for kind in given.on or ("sqlite", "postgresql"):
        if kind == "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                figures[kind] = measure(f"{folder}/history.db", given.results, given.rounds)
        else:
            sys.path.insert(0, str(ROOT / "tests"))
            from postgres_server import PASSWORD, server

            with server(fsync=True) as running:
                url = running.url(running.new_database(), password=PASSWORD)
                figures[kind] = measure(url, given.results, given.rounds)
    print(json.dumps(figures, indent=1))
    if given.output is not None:
        given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    worst = max(
        figures[kind][how]["decision"]["median_ms"]
        for kind in figures
        if kind in ("sqlite", "postgresql")
        for how in ("first_in_a_process", "again")
    )
    print(f"the slowest median decision takes {worst} ms of {1e3 * GOAL_S:.0f}")
    return int(worst > 1e3 * GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
