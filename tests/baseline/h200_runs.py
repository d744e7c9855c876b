"""The captured runs of nccl-tests on four H200s: eight healthy ones, and changed ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rankmuster.baseline.build_history import build_history
from rankmuster.evidence.nccl_tests import read_text
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, HistoryValue, RunState
from rankmuster.model.history import ClassHistory

FOLDERS = Path(__file__).parent.parent / "evidence" / "nccl_tests_h200", Path(__file__).parent / "h200"
CHANGED = ("ar_2ch", "ar_ll", "nt_ar_nop2p", "ar_contended")


@cache
def captured(name: str) -> BenchmarkRun:
    path = next(folder / f"{name}.txt" for folder in FOLDERS if (folder / f"{name}.txt").is_file())
    return read_text(path.read_bytes(), name)


def healthy() -> list[BenchmarkRun]:
    return [captured(f"ar_{number}") for number in range(1, 9)]


def stored(run: BenchmarkRun, number: int, node: str = "node-0", state: RunState = RunState.COMPLETE) -> HistoryRun:
    """The run as a history keeps it, an hour after the one before."""
    values = tuple(HistoryValue(m.cell, m.time_us, m.busbw) for m in run.measurements)
    return HistoryRun(
        record=f"{number:04}",
        class_hash="class",
        kin_hash="kin",
        node_hash=node,
        host=node,
        profile="all-reduce@1",
        tool="nccl-tests",
        started_at=1_790_000_000.0 + 3600 * number,
        state=state,
        values=values,
    )


def history(runs: Sequence[BenchmarkRun]) -> ClassHistory:
    return build_history(stored(run, number) for number, run in enumerate(runs))
