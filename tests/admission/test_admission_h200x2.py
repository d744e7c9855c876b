"""What was measured on two real H200s: a history, healthy admissions and five faults, judged again as it was there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import zstandard

from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Outcome, Plan
from rankmuster.admission.recorded import read_recorded, with_kernel_log
from rankmuster.admission.recorded_sources import recorded_sources
from rankmuster.admission.run import admit
from rankmuster.bench.profiles import named
from rankmuster.bench.record import history_run
from rankmuster.evidence.benchmark_file import read_benchmark
from rankmuster.evidence.fingerprint_file import read_fingerprint
from rankmuster.model.admission import Decision
from rankmuster.model.benchmark import RunState
from rankmuster.model.judgement import Regime, Standing
from rankmuster.store.history import History

MEASURED = Path(__file__).parent / "h200-x2"
LINKS = named("links")


@cache
def lines(name: str) -> tuple[bytes, ...]:
    with zstandard.ZstdDecompressor().stream_reader((MEASURED / f"{name}.jsonl.zst").open("rb")) as reader:
        return tuple(reader.read().splitlines())


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("h200-x2") / "history.db")
    fingerprint = read_fingerprint((MEASURED / "fingerprint.yaml").read_bytes())
    with History.open(url) as history:
        for line in lines("history"):
            assert history.put(history_run(read_benchmark(line), fingerprint, LINKS))
    return url


def admitted(history: str, folder: Path, runs: tuple[bytes, ...]) -> Outcome:
    for number, line in enumerate(runs):
        (folder / f"run-{number}.json").write_bytes(line + b"\n")
    (folder / "fingerprint.yaml").write_bytes((MEASURED / "fingerprint.yaml").read_bytes())
    (folder / "kernel.log").write_text("[    0.000000] Linux version 6.8.0\n[   12.000000] nvidia: loading\n")
    recorded = read_recorded([folder / "fingerprint.yaml", *sorted(folder.glob("run-*.json"))])
    with_kernel_log(recorded, folder / "kernel.log")
    with History.open(history) as stored:
        sources = recorded_sources(recorded, StorePast(stored), LINKS, {}, lambda: 1_796_040_000.0)
        return admit(Plan(LINKS, runs=len(recorded.runs), retests=0), sources)


@pytest.mark.parametrize("number", range(20))
def test_a_healthy_node_is_passed(history: str, tmp_path: Path, number: int) -> None:
    record = admitted(history, tmp_path, lines("healthy")[number : number + 1]).record
    assert record.decision is Decision.PASS, record.reasons
    assert (record.kinship, record.history_runs) == ("class", 24)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("peer-to-peer-off", "NCCL_P2P_DISABLE=1, unset in the class"),
        ("two-channels", "NCCL_MAX_NCHANNELS=2, unset in the class"),
        ("ll-forced", "NCCL_PROTO=LL, unset in the class"),
        ("contending-job", "contention: foreign work: GPU 0 also has process"),
        ("busy-kernel", "contention: foreign work: GPU 0 also has process"),
    ],
)
def test_a_fault_is_refused_for_what_it_is(history: str, tmp_path: Path, fault: str, reason: str) -> None:
    record = admitted(history, tmp_path, lines(fault)).record
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith(reason)


def test_what_nccl_chose_is_told_at_the_sizes_that_were_measured(history: str, tmp_path: Path) -> None:
    """NCCL logs 8 MiB to 128 MiB, the bytes of one of two ranks."""
    reasons = " ".join(admitted(history, tmp_path, lines("ll-forced")).record.reasons)
    assert "all_gather at 16 MiB to 256 MiB: protocol LL, SIMPLE in the class" in reasons
    assert "8 MiB to 128 MiB" not in reasons


def test_the_busy_gpu_is_named(history: str, tmp_path: Path) -> None:
    record = admitted(history, tmp_path, lines("busy-kernel")).record
    assert "the GPU of rank 1 (device 1) is slow by itself" in " ".join(record.reasons)
    assert record.runs[0].state is RunState.CONTENDED
    assert record.judgements == ()


@pytest.mark.parametrize("fault", ["peer-to-peer-off", "two-channels", "ll-forced"])
def test_the_plateau_of_a_forced_setting_is_below(history: str, tmp_path: Path, fault: str) -> None:
    judged = admitted(history, tmp_path, lines(fault)).record.judgements
    below = {one.operation.value for one in judged if one.regime is Regime.PLATEAU and one.standing is Standing.BELOW}
    assert "all_reduce" in below
