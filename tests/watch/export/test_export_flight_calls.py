"""Calls and durations from real dumps: every entry counts once, only measured times of finished calls are times."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rankmuster.evidence.bundle import Evidence, load
from rankmuster.model.flight import FlightDump
from rankmuster.watch.export import bundle_counts
from rankmuster.watch.export.collectives import COLLECTIVES, collective_of
from rankmuster.watch.export.flight_calls import durations, flight_calls
from rankmuster.watch.signals.signal import Counted

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture(scope="module", params=["rank-stops-calling", "collect-skip", "pp-stop", "no-timing-stop"])
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return load(CASES / request.param / "input.tar.zst")


def labels(one: Counted) -> dict[str, str]:
    return dict(one.labels)


def test_every_entry_of_every_rank_is_one_call(evidence: Evidence) -> None:
    dumps = {dump.rank: dump for dump in sorted(evidence.of(FlightDump), key=lambda one: one.columns.newest_ns)}
    assert dumps
    found = list(flight_calls(evidence))
    assert sum(sum(one.counts) for one in found) == sum(len(dump.columns) for dump in dumps.values())
    assert {labels(one)["source"] for one in found} == {"flight"}
    assert {labels(one)["collective"] for one in found} <= set(COLLECTIVES) - {"other"}
    for one in found:
        assert len(one.values) == len(one.counts) < 2000
        assert all(math.isnan(value) or 0 <= value < 3600 for value in one.values)


def test_sums_of_durations_are_those_of_the_dumps_within_rounding(evidence: Evidence) -> None:
    dumps = {dump.rank: dump for dump in sorted(evidence.of(FlightDump), key=lambda one: one.columns.newest_ns)}
    true = sum(float(np.nansum(durations(dump.columns))) for dump in dumps.values())
    told = sum(
        value * count
        for one in flight_calls(evidence)
        for value, count in zip(one.values, one.counts, strict=True)
        if math.isfinite(value)
    )
    assert told == pytest.approx(true, rel=0.06)


def test_what_has_not_completed_has_no_duration(evidence: Evidence) -> None:
    for dump in evidence.of(FlightDump):
        seconds = durations(dump.columns)
        assert np.isnan(seconds[dump.columns.state != 3]).all()


def test_no_dump_is_no_call() -> None:
    assert list(flight_calls(Evidence())) == []


def test_the_process_for_a_bundle_says_the_same(evidence: Evidence, tmp_path: Path) -> None:
    counts = bundle_counts.BundleCounts(tuple(flight_calls(evidence)), 4, len(evidence.of(FlightDump)))
    again = bundle_counts.read(bundle_counts.write(counts))
    assert repr(again) == repr(counts)  # NaN is no equal of itself


def test_a_bundle_is_counted_in_a_process_of_its_own(tmp_path: Path) -> None:
    case = CASES / "rank-stops-calling" / "input.tar.zst"
    done = subprocess.run(bundle_counts.command(case), capture_output=True, timeout=120, check=True, cwd="/")
    counts = bundle_counts.read(done.stdout)
    assert counts.taken >= 3
    assert sum(sum(one.counts) for one in counts.calls) > 1000
    missing = subprocess.run(bundle_counts.command(tmp_path / "no"), capture_output=True, timeout=120, check=False)
    assert missing.returncode == 3
    assert b"no" in missing.stderr


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"calls": 3, "asked": 0, "taken": 0}',
        b'{"calls": [{}], "asked": 0, "taken": 0}',
        b'{"calls": [], "asked": "x", "taken": 0}',
        b'{"calls": [{"what": "collective", "labels": [], "values": [], "counts": []}], "asked": 0, "taken": 0}',
        b'{"calls": [{"what": "collective", "labels": {}, "values": ["x"], "counts": []}], "asked": 0, "taken": 0}',
        b'{"calls": [], "asked": 1e999, "taken": 0}',
        b"[" * 100_000,
        b" " * (bundle_counts.MOST_BYTES + 1),
        json.dumps({"calls": [None], "asked": 0, "taken": 0}).encode(),
    ],
)
def test_an_answer_that_is_none_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match="counts of a bundle"):
        bundle_counts.read(said)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("nccl:all_reduce", "all_reduce"),
        ("ALLREDUCE", "all_reduce"),
        ("ALLREDUCE_COALESCED", "all_reduce"),
        ("AllReduce", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("_ALLGATHER_BASE", "all_gather"),
        ("nccl:ALLGATHER_coalesced", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("ReduceScatter", "reduce_scatter"),
        ("nccl:reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("nccl:reduce", "reduce"),
        ("nccl:all_to_all", "all_to_all"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("AlltoAllv", "all_to_all"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 1<-0", "recv"),
        ("Send", "send"),
        ("nccl:coalesced", "coalesced"),
        ("gloo:barrier", "barrier"),
        ("gloo:broadcast", "broadcast"),
        ("Gather", "gather"),
        ("scatter", "scatter"),
        ("", "other"),
        (None, "other"),
        ("mystery", "other"),
        ("\0" * 10**6, "other"),
    ],
)
def test_one_class_whatever_it_is_called(op: str | None, name: str) -> None:
    assert collective_of(op) == name
