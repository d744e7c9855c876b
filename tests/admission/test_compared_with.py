"""What a node may be compared with: kin never switches the floor off, and a history of the node alone says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, START, admission, fill, kept, run_of, taken
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Plan
from rankmuster.model.admission import CheckState, Decision
from rankmuster.model.benchmark import BenchmarkRun, RunState
from rankmuster.store.history import History

OFF = {"NCCL_P2P_DISABLE": "1"}


def broken(name: str, by: float = 0.1) -> BenchmarkRun:
    """A tenth of the bandwidth at every size."""
    run = run_of(name)
    rows = [
        replace(row, time_us=row.time_us / by, algbw=row.algbw * by, busbw=row.busbw * by) for row in run.measurements
    ]
    return replace(run, measurements=tuple(rows))


@pytest.fixture
def slow_kin(tmp_path: Path) -> str:
    """A history of kin that has peer-to-peer off and a tenth of the bandwidth."""
    url = str(tmp_path / "history.db")
    fingerprint = taken(OFF).fingerprint
    with History.open(url) as history:
        history.put_many([kept(broken(name), fingerprint, number) for number, name in enumerate(HEALTHY)])
    return url


def test_a_node_as_slow_as_its_broken_kin_is_refused_by_its_hardware(slow_kin: str) -> None:
    with History.open(slow_kin) as history:
        outcome = admission([broken("nt_ar_1.txt")], StorePast(history))
    assert (outcome.record.decision, outcome.record.kinship) == (Decision.FAIL, "kin")
    assert "its hardware should reach" in outcome.record.reasons[0]
    assert not any("in the class" in reason for reason in outcome.record.reasons), "kin are as slow: that is no cause"
    assert [run.state for run in outcome.runs] == [RunState.REFUSED], "it makes no baseline"


def test_a_healthy_node_beside_broken_kin_is_no_fail(slow_kin: str) -> None:
    with History.open(slow_kin) as history:
        outcome = admission([run_of("nt_ar_1.txt")], StorePast(history))
    assert outcome.record.decision is Decision.PROVISIONAL


def test_a_node_that_is_compared_with_itself_alone_is_told_so(tmp_path: Path) -> None:
    fill(tmp_path / "history.db", HEALTHY)
    with History.open(str(tmp_path / "history.db")) as history:
        record = admission([run_of("nt_ar_1.txt")], StorePast(history)).record
        words = "compared with nothing but itself: 8 earlier runs of this node"
        assert record.decision is Decision.PASS
        assert words in record.reasons
        assert words in record.notes
        other = replace(taken().fingerprint, node_hash="sha256:" + "5" * 64)
        history.put(kept(run_of("ar_3.txt", started_at=START - 9), other, 20))
        record = admission([run_of("nt_ar_1.txt")], StorePast(history)).record
    assert record.decision is Decision.PASS
    assert not any("itself" in words for words in (*record.reasons, *record.notes))


def test_the_paths_of_every_run_are_looked_at(tmp_path: Path) -> None:
    fill(tmp_path / "history.db", HEALTHY)
    runs = [run_of("nt_ar_1.txt", transports=("SHM/direct/direct",)), run_of("nt_ar_2.txt", transports=("P2P/CUMEM",))]
    with History.open(str(tmp_path / "history.db")) as history:
        record = admission(runs, StorePast(history), plan=Plan(PROFILE, runs=2, retests=0)).record
    assert record.decision is Decision.FAIL
    assert "goes through host memory" in record.reasons[0]
    states = [check.state for check in record.checks if check.name == "transports"]
    assert states == [CheckState.FAIL, CheckState.PASS]
