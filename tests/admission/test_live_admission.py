"""A live admission from look to record: NVML's library in a few lines of C, nccl-tests' programs as scripts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_nccl_tests import install
from fake_nvml import compiled
from rankmuster.admission.live import Live, live_sources
from rankmuster.admission.past import NoPast
from rankmuster.admission.plan import Outcome, Plan
from rankmuster.admission.run import admit
from rankmuster.bench.tool import How, Tool
from rankmuster.collect.machine import Machine
from rankmuster.model.admission import CheckState, Decision
from rankmuster.model.benchmark import Operation, Profile, RunState, Step

MIB = 1 << 20
PROFILE = Profile("small", "", (Step(Operation.ALL_REDUCE, (MIB, 4 * MIB, 16 * MIB), iterations=5, warmup=1),))
TAKE_SECONDS = 6.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


Admitting = Callable[..., Outcome]


@pytest.fixture
def admitting(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admitting:
    """One admission of four GPUs that NVML shows in a `mode` of the library."""

    def go(
        mode: str = "normal", limit: float = 30.0, shell: dict[str, str] | None = None, **benchmark: object
    ) -> Outcome:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        monkeypatch.setenv("FAKE_NVML", mode)
        folder = install(tmp_path / "bin", **benchmark)
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / "kmsg").write_text("6,1,0,-;Linux version 6.8.0\n")
        environ = {"PATH": os.environ["PATH"], **(shell or {})}
        how = How(Tool.NCCL_TESTS, None, {}, environ, limit, folder=folder)
        machine = Machine(hostname="node7", dev=tmp_path / "dev")
        live = Live(how, PROFILE.key, machine=machine, image="none", take_seconds=TAKE_SECONDS)
        return admit(Plan(PROFILE, retests=0), live_sources(live, NoPast()))

    return go


def test_a_node_with_a_link_down_and_a_narrow_slot_is_refused_with_both(admitting: Admitting) -> None:
    record = admitting().record
    assert record.decision is Decision.FAIL
    assert record.nodes == ("node7",)
    states = {check.name: check for check in record.checks if check.state is CheckState.FAIL}
    assert "NVLink 2 down" in states["nvlinks"].statement
    assert "PCIe x8 where both ends can x16" in states["pcie-width"].statement
    (run,) = record.runs
    assert (run.state, len(run.measurements)) == (RunState.COMPLETE, 3)
    assert run.transports == ("P2P/CUMEM",)
    passed = {check.name for check in record.checks if check.state is CheckState.PASS}
    assert {"gpus", "xid", "values", "transports", "same-node", "benchmark"} <= passed


def test_error_counters_of_nvlinks_are_read_live(admitting: Admitting) -> None:
    """The library counts as many replays of a link as its number."""
    found = [check for check in admitting().record.checks if check.name == "nvlink-errors"]
    assert {check.state for check in found} == {CheckState.WARN}
    assert "errors on NVLink" in found[0].statement


def test_what_the_shell_has_set_is_in_the_fingerprint_as_far_as_the_benchmark_had_it(admitting: Admitting) -> None:
    outcome = admitting(shell={"NCCL_ALGO": "Ring", "NCCL_NVLS_ENABLE": "0"})
    (run,) = outcome.record.runs
    ran = {name: value for name, value in run.environment if name.startswith("NCCL_")}
    known = {name: value for name, value in outcome.fingerprint.settings.items() if name.startswith("NCCL_")}
    assert ran == known == {"NCCL_NVLS_ENABLE": "0"}
    assert not any(check.name == "same-settings" for check in outcome.record.checks)


def test_a_driver_that_does_not_start_is_hung_in_time_and_nothing_is_measured(admitting: Admitting) -> None:
    began = time.monotonic()
    record = admitting("init-blocks").record
    assert record.decision is Decision.FAIL
    assert record.checks[0].state is CheckState.HUNG
    assert record.runs == ()
    assert time.monotonic() - began < 5 * TAKE_SECONDS


def test_a_gpu_that_hangs_is_no_pass(admitting: Admitting) -> None:
    record = admitting("block").record
    assert record.decision is Decision.FAIL
    (hung,) = [check for check in record.checks if check.name == "gpus" and check.state is not CheckState.PASS]
    assert hung.state is CheckState.HUNG
    assert hung.subject.startswith("GPU 2")
    assert "the driver blocks" in hung.statement
    assert record.reasons[0].startswith("GPU 2"), "what hung comes first"


def test_a_benchmark_that_hangs_is_ended_and_refuses(admitting: Admitting) -> None:
    outcome = admitting(kind="hang", limit=8.0)
    assert outcome.record.decision is Decision.FAIL
    assert "did not end in its time" in outcome.record.reasons[0]
    assert [run.state for run in outcome.record.runs] == [RunState.HUNG]


def test_no_nccl_tests_where_they_are_said_to_be_is_an_error_of_the_benchmark(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML", "normal")
    how = How(Tool.NCCL_TESTS, None, {}, {"PATH": os.environ["PATH"]}, 8.0, folder=tmp_path)
    live = Live(how, PROFILE.key, image="none", take_seconds=TAKE_SECONDS)
    record = admit(Plan(PROFILE, retests=0), live_sources(live, NoPast())).record
    assert any(check.name == "benchmark" and check.state is CheckState.ERROR for check in record.checks)
