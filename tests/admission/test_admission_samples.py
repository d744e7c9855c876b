"""Recorded runs of a real node of four H200s against histories in SQLite: health passes, five faults do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, QUIET, START, admission, fill, run_of, taken
from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Outcome
from rankmuster.model.admission import Decision
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRank, BenchmarkRun, RunState, series_key
from rankmuster.model.judgement import Standing
from rankmuster.store.history import History


def against(
    folder: Path, run: BenchmarkRun, *, settings: Mapping[str, str] | None = None, names: tuple[str, ...] = HEALTHY
) -> Outcome:
    """The run against a history of the class's healthy ones."""
    fill(folder / "history.db", names)
    with History.open(str(folder / "history.db")) as history:
        return admission([run], StorePast(history), settings=settings)


@pytest.mark.parametrize("name", HEALTHY)
def test_each_healthy_run_passes_against_the_others(name: str, tmp_path: Path) -> None:
    outcome = against(tmp_path, run_of(name), names=tuple(other for other in HEALTHY if other != name))
    assert outcome.record.decision is Decision.PASS, outcome.record.reasons
    assert outcome.record.kinship == "class"
    assert [run.state for run in outcome.runs] == [RunState.COMPLETE]


@pytest.mark.parametrize("name", ["nt_ar_1.txt", "nt_ar_2.txt", "nt_ar_3.txt"])
def test_runs_timed_by_iteration_pass_too(name: str, tmp_path: Path) -> None:
    assert against(tmp_path, run_of(name)).record.decision is Decision.PASS


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ar_2ch.txt", {"NCCL_MAX_NCHANNELS": "2"}, "NCCL_MAX_NCHANNELS=2, unset in the class"),
        ("ar_ll.txt", {"NCCL_PROTO": "LL"}, "NCCL_PROTO=LL, unset in the class"),
        ("nt_ar_nop2p.txt", {"NCCL_P2P_DISABLE": "1"}, "NCCL_P2P_DISABLE=1, unset in the class"),
    ],
)
def test_a_setting_that_slows_is_the_first_reason(
    name: str, settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    outcome = against(tmp_path, run_of(name), settings=settings)
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.kinship == "kin"
    assert outcome.record.reasons[0].startswith(words)
    assert any("plateau" in reason for reason in outcome.record.reasons[1:]), "how slow it is comes after why"


def test_p2p_off_without_a_known_setting_is_told_by_the_transports(tmp_path: Path) -> None:
    run = run_of("nt_ar_nop2p.txt", transports=("SHM/direct/direct",))
    reasons = against(tmp_path, run).record.reasons
    assert reasons[0].startswith("NVLink connects all GPUs, and NCCL goes through host memory (SHM/direct/direct)")


@pytest.mark.parametrize(
    ("name", "chosen", "words"),
    [
        ("ar_ll.txt", ("RING", "LL", 24), "protocol LL, SIMPLE in the class"),
        ("ar_2ch.txt", ("RING", "SIMPLE", 2), "channels 2, 24 in the class"),
    ],
)
def test_a_choice_that_differs_from_the_class_explains_a_slow_node(
    name: str, chosen: tuple[str, str, int], words: str, tmp_path: Path
) -> None:
    """The same settings as far as anybody knows: pinned where a fingerprint does not look."""
    sizes = PROFILE.steps[0].sizes
    usual = tuple(AlgorithmChoice("all_reduce", size, "RING", "SIMPLE", 24) for size in sizes)
    here = tuple(AlgorithmChoice("all_reduce", size, *chosen) for size in sizes)
    fill(tmp_path / "history.db", HEALTHY, choices=usual)
    with History.open(str(tmp_path / "history.db")) as history:
        outcome = admission([run_of(name, choices=here)], StorePast(history))
    assert outcome.record.decision is Decision.FAIL
    assert words in outcome.record.reasons[0]
    assert "8 KiB to 256 MiB" in outcome.record.reasons[0]


def test_the_mark_of_another_job_in_the_results_is_contention_and_not_slowness(tmp_path: Path) -> None:
    outcome = against(tmp_path, run_of("ar_contended.txt"))
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.reasons[0].startswith("contention: ")
    assert outcome.record.judgements == (), "a contended node is not judged"
    assert [run.state for run in outcome.runs] == [RunState.CONTENDED]


def test_a_run_that_saw_foreign_work_names_it_and_is_not_judged_even_if_it_was_fast(tmp_path: Path) -> None:
    run = run_of("ar_3.txt", state=RunState.CONTENDED, reason="foreign work: GPU 2 also has process 4242")
    outcome = against(tmp_path, run)
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.reasons[0] == "contention: foreign work: GPU 2 also has process 4242"
    assert outcome.record.judgements == ()
    assert [run.state for run in outcome.runs] == [RunState.CONTENDED]


def slowed(factor: float, slow_rank: int) -> BenchmarkRun:
    """A healthy run with a kernel that keeps one GPU busy: large sizes slower, and that rank's times stand out."""
    run = run_of("ar_3.txt")
    rows = []
    for row in run.measurements:
        by = factor if row.cell.size_bytes >= 1 << 24 else 1.0
        ranks = tuple(row.time_us * by * (1.25 if rank == slow_rank and by > 1 else 1.0) for rank in range(4))
        rows.append(replace(row, time_us=row.time_us * by, algbw=row.algbw / by, busbw=row.busbw / by, ranks_us=ranks))
    ranks = tuple(
        BenchmarkRank(rank, "node7", 100 + rank, rank, f"0000:00:0{6 + rank}", "NVIDIA H200") for rank in range(4)
    )
    return replace(run, measurements=tuple(rows), ranks=ranks)


def test_a_busy_kernel_on_one_gpu_is_that_rank(tmp_path: Path) -> None:
    outcome = against(tmp_path, slowed(1.6, slow_rank=2))
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.reasons[0].startswith("rank 2 (GPU 2, 0000:00:08) is the slow one")
    assert any("plateau" in reason for reason in outcome.record.reasons[1:])


def test_a_busy_kernel_whose_process_is_seen_is_contention(tmp_path: Path) -> None:
    fill(tmp_path / "history.db")
    facts = replace(QUIET, load={2: UnderLoad(foreign_pids=(4242,), samples=9)})
    with History.open(str(tmp_path / "history.db")) as history:
        outcome = admission([slowed(1.6, slow_rank=2)], StorePast(history), facts=facts)
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.reasons[0] == "contention: foreign work while it ran: process 4242 on GPU 2"


def test_a_refused_node_leaves_the_baseline_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path / "history.db")
    with History.open(str(tmp_path / "history.db")) as history:
        for _ in range(3):
            outcome = admission([slowed(1.6, slow_rank=2)], StorePast(history))
            history.put_many(outcome.runs)
        class_hash = taken().fingerprint.class_hash
        assert isinstance(class_hash, str)
        known = history.class_history(class_hash, series_key(PROFILE, "nccl-tests", 4))
        assert known.total == len(HEALTHY)
        assert known.kept_out == {"refused": 1}, "the same run once, however often it was brought"
        assert admission([run_of("nt_ar_1.txt")], StorePast(history)).record.decision is Decision.PASS


def test_kin_within_is_provisional_and_makes_the_class_a_history_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path / "history.db")
    settings = {"NCCL_BUFFSIZE": "4194304"}
    with History.open(str(tmp_path / "history.db")) as history:
        first = admission([run_of("nt_ar_1.txt")], StorePast(history), settings=settings)
        assert first.record.decision is Decision.PROVISIONAL
        assert first.record.kinship == "kin"
        assert "other settings" in first.record.reasons[0]
        assert [run.state for run in first.runs] == [RunState.COMPLETE]
        for name in HEALTHY:
            made = admission([run_of(name)], StorePast(history), settings=settings)
            history.put_many(made.runs)
        last = admission([run_of("nt_ar_2.txt")], StorePast(history), settings=settings)
    assert (last.record.decision, last.record.kinship) == (Decision.PASS, "class")


def test_without_a_history_a_floor_from_the_hardware_is_named(tmp_path: Path) -> None:
    record = admission([run_of("nt_ar_1.txt")]).record
    assert (record.decision, record.kinship) == (Decision.PROVISIONAL, "floor")
    plateau = [judged for judged in record.judgements if judged.floor]
    assert plateau
    assert all(judged.standing is Standing.TOO_LITTLE for judged in plateau)


def test_far_below_the_floor_is_refused_without_any_history() -> None:
    record = admission([run_of("nt_ar_nop2p.txt")]).record
    assert (record.decision, record.kinship) == (Decision.FAIL, "floor")
    assert "its hardware should reach" in record.reasons[0]


def test_a_record_says_what_it_rests_on(tmp_path: Path) -> None:
    record = against(tmp_path, run_of("ar_1.txt")).record
    assert record.nodes == ("node7",)
    assert record.profile == PROFILE.key
    assert (record.history_runs, record.history_nodes) == (8, 1)
    assert record.compared_with == taken().fingerprint.class_hash
    assert record.started_at >= START
    assert record.ended_at > record.started_at
    assert record.runs[0].measurements == run_of("ar_1.txt").measurements
