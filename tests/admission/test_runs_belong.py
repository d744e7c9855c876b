"""A run counts for a node only if nothing that it says of itself contradicts the node's fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, admission, fill, run_of
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Plan
from rankmuster.model.admission import AdmissionRecord, Decision
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.store.history import History

Judged = Callable[..., AdmissionRecord]


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """The record of runs against a history of the class's healthy ones."""
    fill(tmp_path / "history.db", HEALTHY)

    def go(*runs: BenchmarkRun, plan: Plan | None = None) -> AdmissionRecord:
        with History.open(str(tmp_path / "history.db")) as history:
            return admission(runs, StorePast(history), plan=plan or Plan(PROFILE, runs=len(runs), retests=0)).record

    return go


def on_two_gpus(name: str = "nt_ar_1.txt") -> BenchmarkRun:
    """The same times over two of the four GPUs: two thirds of the bus bandwidth."""
    run = run_of(name)
    rows = tuple(replace(row, busbw=row.algbw) for row in run.measurements)
    return replace(run, ranks=run.ranks[:2], measurements=rows)


def refused(record: AdmissionRecord, *words: str) -> None:
    assert record.decision is Decision.ERROR, record.reasons
    for word in words:
        assert word in record.reasons[0]
    assert record.judgements == (), "nothing of another node is judged"


def test_fewer_gpus_than_the_node_has_are_not_the_node(judged: Judged) -> None:
    refused(judged(on_two_gpus()), "it ran on 2 GPU(s), and the node has 4")


def test_fewer_gpus_that_were_asked_for_have_a_history_of_their_own(judged: Judged) -> None:
    record = judged(on_two_gpus(), plan=Plan(PROFILE, retests=0, gpus=2))
    assert (record.decision, record.kinship) == (Decision.PROVISIONAL, "floor")
    refused(judged(run_of("nt_ar_1.txt"), plan=Plan(PROFILE, retests=0, gpus=2)), "on 4 GPU(s), and --gpus asks for 2")
    two = replace(PROFILE, ranks=2)
    refused(judged(run_of("nt_ar_1.txt"), plan=Plan(two, retests=0)), "the profile all-reduce asks for 2")


def test_bus_bandwidth_is_shown_as_the_tool_gave_it(judged: Judged) -> None:
    run = run_of("nt_ar_1.txt")
    given = {row.cell: row.busbw for row in run.measurements}
    shown = [cell for one in judged(run).judgements for cell in one.cells if cell.unit == "GB/s"]
    assert shown
    assert all(cell.value == pytest.approx(given[cell.cell], rel=1e-6) for cell in shown)


def changed(**rank: object) -> BenchmarkRun:
    run = run_of("nt_ar_1.txt")
    return replace(run, ranks=tuple(replace(one, **rank) for one in run.ranks))  # type: ignore[arg-type]


def test_another_host_is_named_with_the_fingerprints(judged: Judged) -> None:
    refused(judged(changed(host="node8")), "it ran on node8, and the fingerprint is of node7")


def test_a_host_by_its_long_name_is_the_same_host(judged: Judged) -> None:
    assert judged(changed(host="NODE7.cluster.example")).decision is Decision.PASS


def test_ranks_on_several_hosts_are_not_one_node(judged: Judged) -> None:
    run = run_of("nt_ar_1.txt")
    far = (*run.ranks[:3], replace(run.ranks[3], host="node8"))
    refused(judged(replace(run, ranks=far)), "2 hosts (node7, node8), and one node is admitted")


def test_another_gpu_model_is_named_and_a_slice_is_its_gpu(judged: Judged) -> None:
    refused(judged(changed(gpu_model="NVIDIA H100 80GB HBM3")), "NVIDIA H100 80GB HBM3", "has NVIDIA H200")
    assert judged(changed(gpu_model="NVIDIA H200 MIG 3g.71gb")).decision is Decision.PASS


def test_a_gpu_where_the_fingerprint_has_none(judged: Judged) -> None:
    refused(judged(changed(bus_id="0000:77:00")), "0000:77:00", "0000:00:06")


def test_another_nccl_is_other_software(judged: Judged) -> None:
    refused(judged(replace(run_of("nt_ar_1.txt"), nccl_version="2.29.3")), "NCCL 2.29.3, 2.28.9 in the fingerprint")
    assert judged(replace(run_of("nt_ar_1.txt"), nccl_version="2.28.9+cuda13.0")).decision is Decision.PASS


def test_every_run_is_looked_at(judged: Judged) -> None:
    refused(judged(run_of("nt_ar_1.txt"), changed(host="node8")), "it ran on node8")


def test_a_run_that_does_not_say_its_gpus_is_no_pass(judged: Judged) -> None:
    record = judged(replace(run_of("nt_ar_1.txt"), ranks=()))
    assert record.decision is Decision.PROVISIONAL
    assert any("does not say on which GPUs it ran" in reason for reason in record.reasons)
