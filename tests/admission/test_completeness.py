"""A part of the profile is not the profile, and a table that looks like it may be of something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, SAMPLES, admission, fill, run_of, taken
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Plan
from rankmuster.bench.record import NoHistory, history_run
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.model.admission import AdmissionRecord, Decision
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.judgement import Regime
from rankmuster.store.history import History

Judged = Callable[..., AdmissionRecord]


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """The record of runs against a history of the class's healthy ones."""
    fill(tmp_path / "history.db", HEALTHY)

    def go(*runs: BenchmarkRun) -> AdmissionRecord:
        with History.open(str(tmp_path / "history.db")) as history:
            return admission(runs, StorePast(history), plan=Plan(PROFILE, runs=len(runs), retests=0)).record

    return go


def only(keep: Callable[[int], bool], **changes: object) -> BenchmarkRun:
    run = run_of("nt_ar_1.txt", **changes)
    return replace(run, measurements=tuple(row for row in run.measurements if keep(row.cell.size_bytes)))


def test_without_its_largest_size_the_plateau_is_not_judged(judged: Judged) -> None:
    record = judged(only(lambda size: size < 256 << 20))
    assert record.decision is Decision.ERROR
    assert "incomplete" in record.reasons[0]
    assert "all_reduce of float at 256 MiB" in record.reasons[0]
    assert {one.regime for one in record.judgements if not one.in_place} == {Regime.LATENCY, Regime.TRANSITION}


def test_a_slow_part_refuses_all_the_same(judged: Judged) -> None:
    run = only(lambda size: size != 1 << 20)
    rows = [replace(row, time_us=row.time_us * 2, algbw=row.algbw / 2, busbw=row.busbw / 2) for row in run.measurements]
    assert judged(replace(run, measurements=tuple(rows))).decision is Decision.FAIL


def test_sizes_that_the_tool_left_out_for_a_reason_leave_it_open(judged: Judged) -> None:
    words = "the GPUs' memory left room for 134217728 bytes at most"
    record = judged(only(lambda size: size < 256 << 20, reason=words))
    assert record.decision is Decision.PROVISIONAL
    assert any(words in reason for reason in record.reasons)


def test_parts_in_several_files_are_the_whole_together(judged: Judged) -> None:
    record = judged(only(lambda size: size >= 1 << 20), only(lambda size: size < 1 << 20))
    assert record.decision is Decision.PASS, record.reasons


@pytest.mark.parametrize(
    ("written", "instead", "words"),
    [
        ("agg iters: 1", "agg iters: 8", "8 operations were launched together"),
        ("unalign: 0", "unalign: 1", "buffers were not aligned"),
        (" iters: 50", " iters: 1", "each size was measured 1 time(s), and the profile takes 20"),
        ("   sum ", "  prod ", "values were reduced by prod, not by sum"),
    ],
)
def test_what_was_started_otherwise_is_compared_with_nothing(
    written: str, instead: str, words: str, judged: Judged
) -> None:
    text = (SAMPLES / "nt_ar_1.txt").read_text()
    assert written in text
    (run,) = read_runs(text.replace(written, instead).encode(), "nt_ar_1.txt")
    record = judged(run)
    assert record.decision is Decision.ERROR
    assert words in record.reasons[0]
    assert record.judgements == ()
    with pytest.raises(NoHistory, match="is not what the profile all-reduce measures"):
        history_run(run, taken().fingerprint, PROFILE, started_at=1.8e9)


def test_fewer_iterations_than_the_profiles_are_enough_as_long_as_they_make_a_mean(judged: Judged) -> None:
    text = (SAMPLES / "nt_ar_1.txt").read_text().replace(" iters: 50", " iters: 5")
    (run,) = read_runs(text.encode(), "nt_ar_1.txt")
    assert judged(run).decision is Decision.PASS
