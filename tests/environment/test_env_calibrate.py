"""Numbers from recorded load: the captures, and rings made to order."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.environment.calibrate_form import as_json, as_shell, as_text
from rankmuster.environment.calibrated import Grounds, Value
from rankmuster.environment.calibration import DEFAULT_WINDOW, Calibration, NothingRecorded, calibrate
from rankmuster.environment.recorded import LogVolume, Recorded, Ring, recorded
from rankmuster.environment.timeouts import LEAST_SAMPLES
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather, load

CASES = Path(__file__).parents[1] / "cases"
TORCH = (2, 11)


def case(name: str) -> Recorded:
    return recorded(name, load(CASES / name / "input.tar.zst"))


def value(calibration: Calibration, name: str) -> Value:
    return next(one for one in calibration.values if one.name == name)


def ring(
    entries: int = 2000, span: float = 1.0, *, rank: int = 0, durations: int = 0, longest: float = 1.0,
    observed: int = 0, stacks: bool = False, newest: int = 2_000_000_000, record: int = 5000, size: int | None = None,
    full: bool = True, moving: bool = True, took: float | None = None,
) -> Ring:  # fmt: skip
    made = np.linspace(0.01, longest, durations or observed)
    return Ring(
        "b", rank, entries, record, newest, span, full, size, stacks, moving,
        made if durations else np.zeros(0), made if observed else np.zeros(0), 600_000, took,
    )  # fmt: skip


def bundle(*rings: Ring, logs: tuple[LogVolume, ...] = (), **more: object) -> Recorded:
    defaults: dict[str, object] = {
        "bundle": "b", "instance": ("llm", "1"), "world_size": 2, "timing": None, "environment": {}, "step_rate": None,
    }  # fmt: skip
    return Recorded(rings=rings, logs=logs, **{**defaults, **more})  # type: ignore[arg-type]


# ----- the captures


def test_a_healthy_capture_decides_every_setting() -> None:
    result = calibrate([case("healthy-tp4")], torch=TORCH)
    assert result.decided
    size = value(result, "ring_entries")
    # the busiest rank enqueued 3800 a second; 10 s and a fifth more
    assert 40_000 <= (size.number or 0) <= 50_000
    assert dict(size.variables)["TORCH_NCCL_TRACE_BUFFER_SIZE"] == str(int(size.number or 0))
    timeout = value(result, "collective_timeout")
    assert timeout.samples > 7000
    assert timeout.grounds is Grounds.FLOOR
    assert "timed on the GPU" in timeout.basis
    assert value(result, "nccl_log_bytes_per_hour").number is not None


def test_a_small_window_keeps_stacks_and_measures_the_size() -> None:
    result = calibrate([case("tp2-healthy")], window=1.0, torch=TORCH)
    size, dump = value(result, "ring_entries"), value(result, "dump_bytes")
    assert "TORCH_INCLUDE_STACK_TRACE" not in dict(size.variables)
    assert dump.grounds is Grounds.MEASURED
    assert dump.number is not None
    assert 150 < dump.number / (size.number or 1) < 200  # four shared frames an entry


def test_without_timing_the_hosts_view_is_used_and_said() -> None:
    result = calibrate([case("no-timing-stop")], torch=TORCH)
    assert "no timing" in value(result, "collective_timeout").basis
    assert any("did not move" in note for note in result.notes)


def test_without_dumps_it_is_said_what_is_missing() -> None:
    result = calibrate([case("prefill")], torch=TORCH)
    assert not result.decided
    for one in result.values:
        assert (one.number is None) == bool(one.missing)


def test_calibration_is_the_same_every_time() -> None:
    bundles = [case("healthy-tp4"), case("tp2-healthy")]
    once = calibrate(bundles, torch=TORCH)
    assert as_json(calibrate(bundles, torch=TORCH)) == as_json(once)
    other = calibrate(bundles[::-1], torch=TORCH)
    assert [one.number for one in other.values] == [one.number for one in once.values]


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir())[::4])
def test_every_capture_gives_an_answer_in_every_form(name: str) -> None:
    recorded = case(name)
    if not any(ring.entries for ring in recorded.rings) and not recorded.logs and recorded.step_rate is None:
        with pytest.raises(NothingRecorded, match="rankmuster collect"):
            calibrate([recorded], torch=TORCH)
        return
    result = calibrate([recorded], torch=TORCH)
    assert json.loads(as_json(result))["schema"] == "rankmuster.calibration/1"
    assert as_text(result, 60)
    for line in as_shell(result).splitlines():
        assert line.startswith(("#", "export "))


# ----- made to order


def test_the_busiest_rank_counts() -> None:
    result = calibrate([bundle(ring(span=2.0)), bundle(ring(span=0.5, rank=1))], window=1.0, torch=TORCH)
    size = value(result, "ring_entries")
    assert size.number == 5000  # 4000 a second and a fifth more, rounded up to 500
    assert "rank 1" in size.basis


def test_what_a_dump_takes_is_measured_where_it_was_asked_for() -> None:
    asked = calibrate([bundle(ring(2000, span=0.5, stacks=True, took=6.0), ring(2000, span=0.5, rank=1, stacks=True))],
                      window=0.1, torch=TORCH)  # fmt: skip
    seconds = value(asked, "dump_seconds")
    assert seconds.number == pytest.approx(6.0 * (value(asked, "ring_entries").number or 0) / 2000)
    assert "from the request to the file" in seconds.basis
    assert "constant" in value(calibrate([bundle(ring(span=0.5))], window=0.1, torch=TORCH), "dump_seconds").basis


def test_two_looks_at_one_process_tell_the_rate_between_them() -> None:
    first = bundle(ring(50, record=1000, newest=1_000_000_000))
    second = bundle(ring(50, record=61_000, newest=21_000_000_000))
    size = value(calibrate([second, first], window=2.0, torch=TORCH), "ring_entries")
    assert size.number == 7500  # 3000 a second for 2 s and a fifth
    assert "between two looks" in size.basis


def test_two_starts_of_an_instance_are_not_one_process() -> None:
    looks = [
        bundle(ring(50, record=1000, newest=1_000_000_000), instance=("llm", "1")),
        bundle(ring(50, record=61_000, newest=21_000_000_000), instance=("llm", "2")),
    ]
    assert value(calibrate(looks, torch=TORCH), "ring_entries").number is None


def test_few_entries_decide_nothing() -> None:
    result = calibrate([bundle(ring(99)), bundle(ring(2000, 0.01))], torch=TORCH)
    assert value(result, "ring_entries").number is None
    assert not result.decided


def test_a_quiet_instance_gets_the_floor() -> None:
    size = value(calibrate([bundle(ring(200, 100.0))], torch=TORCH), "ring_entries")
    assert (size.number, size.grounds) == (2000, Grounds.FLOOR)


def test_a_ring_has_an_upper_end() -> None:
    size = value(calibrate([bundle(ring(2000, 0.2))], window=86_400.0, torch=TORCH), "ring_entries")
    assert size.number == 1_000_000
    assert "more than" in size.basis


def test_names_are_those_of_the_version() -> None:
    old = value(calibrate([bundle(ring())], window=1.0, torch=(2, 7)), "ring_entries")
    assert [name for name, _ in old.variables] == ["TORCH_NCCL_TRACE_BUFFER_SIZE"]


@pytest.mark.parametrize("count", [0, 1, LEAST_SAMPLES - 1])
def test_few_samples_give_no_time_out(count: int) -> None:
    timeout = value(calibrate([bundle(ring(durations=count))], torch=TORCH), "collective_timeout")
    assert timeout.number is None
    assert timeout.samples == count


def test_long_collectives_raise_the_time_outs_and_the_engines_are_named() -> None:
    result = calibrate([bundle(ring(durations=5000, longest=40_000.0))], torch=TORCH)
    timeout = value(result, "collective_timeout")
    assert timeout.number == 400  # ten times 40 s
    assert timeout.grounds is Grounds.MEASURED
    assert "Engines give up" in timeout.cost
    assert (value(result, "heartbeat").number or 0) >= 400


@pytest.mark.parametrize("window", [0.1, 10.0, 500.0])
def test_the_heartbeat_outlasts_the_wait(window: float) -> None:
    result = calibrate([bundle(ring())], window=window, torch=TORCH)
    wait, heartbeat = value(result, "dump_wait").number, value(result, "heartbeat").number
    assert wait is not None
    assert heartbeat is not None
    assert heartbeat > 4 * wait / 1000


def test_log_volume_is_of_the_whole_instance() -> None:
    logs = (LogVolume("a", True, 100.0, 1000.0, 10.0), LogVolume("b", True, 100.0, 0.0, 0.0))
    volume = value(calibrate([bundle(ring(), logs=logs)], torch=TORCH), "nccl_log_bytes_per_hour")
    assert volume.number == 2 * 100 * 3600
    assert "200 bytes more at every start" in volume.basis


def test_overhead_needs_both_kinds_of_one_instance() -> None:
    with_, without = bundle(ring(), timing=True, step_rate=99.0), bundle(ring(), timing=False, step_rate=100.0)
    alone = value(calibrate([with_], torch=TORCH), "timing_overhead")
    assert alone.number is None
    assert "three of each" in alone.missing
    pair = value(calibrate([with_, without], torch=TORCH), "timing_overhead")
    assert pair.number == pytest.approx(0.01)
    assert "an indication only" in pair.basis
    many = value(calibrate([with_, without] * 3, torch=TORCH), "timing_overhead")
    assert "among themselves" in many.basis
    other = bundle(ring(), timing=False, step_rate=100.0, instance=("other", "1"))
    assert value(calibrate([with_, other], torch=TORCH), "timing_overhead").number is None


def test_cpp_stacks_need_both_kinds() -> None:
    plain = bundle(ring(size=500_000, stacks=True), environment={"TORCH_FR_CPP_STACK": "0"})
    rich = bundle(ring(size=900_000, stacks=True), environment={"TORCH_FR_CPP_STACK": "1"})
    assert value(calibrate([plain], torch=TORCH), "cpp_stack_bytes").number is None
    assert value(calibrate([plain, rich], torch=TORCH), "cpp_stack_bytes").number == 200


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(NothingRecorded, match="collect"):
        calibrate([bundle()], torch=TORCH)


NUMBERS = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(
    ["record_id", "time_created_ns", "time_discovered_completed_ns", "duration_ms", "state", "retired", "timeout_ms"]
), NUMBERS), min_size=1, max_size=150), st.sampled_from([1, 200]))  # fmt: skip
def test_absurd_dumps_do_no_harm(entries: list[dict[str, object]], times: int) -> None:
    """What a failing machine may leave in a dump's fields."""
    dump = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": entries * times}
    evidence = gather([Blob("flight/rank_0.json", json.dumps(dump).encode())])
    answer(evidence_of=lambda: recorded("b", evidence))


def answer(evidence_of: Callable[[], Recorded]) -> None:
    try:
        result = calibrate([evidence_of()], window=DEFAULT_WINDOW, torch=TORCH)
    except NothingRecorded:
        return
    assert as_text(result)
    json.loads(as_json(result))


def test_a_dump_of_equal_stamps_decides_nothing() -> None:
    entry = {"record_id": 1, "time_created_ns": 5, "profiling_name": "nccl:all_reduce", "state": "completed",
             "collective_seq_id": 1, "pg_id": 0, "process_group": ("0", "default_pg")}  # fmt: skip
    dump = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": [entry] * 300}
    evidence = gather([Blob("flight/nccl_trace_rank_0", pickle.dumps(dump, protocol=2))])
    answer(evidence_of=lambda: recorded("b", evidence))
