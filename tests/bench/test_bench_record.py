"""A run becomes the same record however often it is brought, and none where nothing may be compared with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rankmuster.bench.record import NoHistory, history_run, rank_spread_percent
from rankmuster.model.benchmark import (
    BenchmarkRank,
    BenchmarkRun,
    Cell,
    Measurement,
    Operation,
    Profile,
    RunState,
    Spread,
    Step,
    series_key,
)
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown
from rankmuster.store.records import record_of

PROFILE = Profile("p", "", (Step(Operation.ALL_REDUCE, (1024,)),))
RANKS = tuple(BenchmarkRank(rank, "node01", None, rank, None, "H200") for rank in range(2))
CELL = Cell(Operation.ALL_REDUCE, 1024, "float")


def fingerprint(**changes: Any) -> Fingerprint:
    unread = Unknown("not asked")
    values: dict[str, Any] = dict.fromkeys(
        ("image_digest", "cuda_version", "nccl_version", "pytorch_version", "engine", "engine_version"), unread
    )
    values |= {"gpu_model": "H200", "gpu_count": 4, "driver": unread, "topology_hash": "t", "nccl_test_profile": "none"}
    values |= {"network_device_set": (), "nic_order": (), "settings": {"NCCL_ALGO": "Ring", "acs": Unknown("no root")}}
    values |= {"host": "node01", "taken_at": 1.0, "kin_hash": "k", "class_hash": "c", "node_hash": "n"}
    return Fingerprint(**(values | changes))


def measurement(time: float, **changes: Any) -> Measurement:
    return Measurement(CELL, time, 1024 / time / 1000, 2 * 1024 / time / 1000, 0, **changes)


def run(*measurements: Measurement, **changes: Any) -> BenchmarkRun:
    made = BenchmarkRun("x", "nccl-tests", None, None, 100.0, RunState.COMPLETE, "", RANKS, measurements)
    return replace(made, **changes)


def test_the_same_run_is_the_same_record_and_another_one_is_not() -> None:
    first = history_run(run(measurement(10.0)), fingerprint(), PROFILE)
    again = history_run(run(measurement(10.0), source="another file"), fingerprint(), PROFILE)
    other = history_run(run(measurement(10.0), started_at=101.0), fingerprint(), PROFILE)
    assert first.record == again.record == record_of(first)
    assert first.record.startswith("sha256:")
    assert len(first.record) == len("sha256:") + 64
    assert other.record != first.record


def test_what_it_is_kept_under() -> None:
    found = history_run(run(measurement(10.0)), fingerprint(), PROFILE)
    assert (found.class_hash, found.kin_hash, found.node_hash, found.host) == ("c", "k", "n", "node01")
    assert found.profile == series_key(PROFILE, found.tool, 2)
    assert found.settings == (("NCCL_ALGO", "Ring"), ("acs", "unknown: no root"))


def test_what_another_tool_measured_is_kept_apart() -> None:
    one = history_run(run(measurement(10.0)), fingerprint(), PROFILE)
    other = history_run(run(measurement(10.0), tool="built-in"), fingerprint(), PROFILE)
    assert one.class_hash == other.class_hash
    assert one.profile != other.profile


def test_what_another_number_of_gpus_measured_is_kept_apart() -> None:
    two = history_run(run(measurement(10.0)), fingerprint(), PROFILE)
    one = history_run(run(measurement(10.0), ranks=RANKS[:1]), fingerprint(), PROFILE)
    assert two.profile == f"{PROFILE.key}/nccl-tests/2"
    assert one.profile == f"{PROFILE.key}/nccl-tests/1"


def test_results_of_nobody_knows_how_many_gpus_are_kept_nowhere() -> None:
    with pytest.raises(NoHistory, match="how many GPUs"):
        history_run(run(measurement(10.0), ranks=()), fingerprint(), PROFILE)
    assert history_run(run(ranks=(), state=RunState.ERROR), fingerprint(), PROFILE).state is RunState.ERROR


@pytest.mark.parametrize("part", ["class_hash", "kin_hash", "node_hash"])
def test_an_unknown_class_has_no_history(part: str) -> None:
    with pytest.raises(NoHistory, match=rf"{part} is unknown \(no driver\)"):
        history_run(run(), fingerprint(**{part: Unknown("no driver")}), PROFILE)


def test_a_run_of_which_nobody_says_when_it_was_has_no_place_in_time() -> None:
    with pytest.raises(NoHistory, match="when"):
        history_run(run(started_at=None), fingerprint(), PROFILE)
    assert history_run(run(started_at=None), fingerprint(), PROFILE, started_at=7.0).started_at == 7.0


def test_values_are_medians_and_extremes_of_the_iterations() -> None:
    spread = Spread(8.0, 30.0, 9.5, 29.0, 12.0)
    found = history_run(
        run(measurement(10.0, spread=spread, iterations_us=(8.0, 30.0, 9.0), ranks_us=(9.0, 9.9))),
        fingerprint(),
        PROFILE,
    )
    (value,) = found.values
    assert (value.time_us, value.min_us, value.p50_us, value.p99_us, value.cv_percent) == (10.0, 8.0, 9.0, 29.0, 12.0)
    assert value.rank_spread_percent == pytest.approx(10.0)


def test_a_cell_measured_several_times_is_kept_once() -> None:
    found = history_run(run(measurement(10.0), measurement(12.0), measurement(50.0)), fingerprint(), PROFILE)
    (value,) = found.values
    assert value.time_us == 12.0
    assert (value.min_us, value.p50_us, value.p99_us, value.rank_spread_percent) == (None, None, None, None)


def test_the_spread_between_ranks_is_of_the_fastest() -> None:
    assert rank_spread_percent((100.0, 150.0, 110.0)) == 50.0
    assert rank_spread_percent((100.0,)) is None
    assert rank_spread_percent(()) is None
