"""Pickle dumps as evidence: what a real one holds, and what a damaged or hostile one leaves."""

from __future__ import annotations

import dataclasses
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flight_readers import NAME, read
from flight_sample import JSON, PICKLE
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import flight_json, flight_pickle
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import FlightDump
from rankmuster.model.problem import ProblemKind


def dump(data: bytes) -> FlightDump:
    (found,) = read(data).observations
    assert isinstance(found, FlightDump)
    return found


def entry(**fields: Any) -> dict[str, Any]:
    return {"record_id": 0, "profiling_name": "nccl:all_reduce", "process_group": ("0", "d"), **fields}


def top(*entries: dict[str, Any], **fields: Any) -> bytes:
    return pickle.dumps({"version": "2.10", "pg_config": {}, "entries": list(entries), **fields}, protocol=2)


def test_a_real_dump() -> None:
    found = dump(PICKLE)
    assert (found.rank, found.form, found.version) == (3, "pickle", (2, 10))
    columns = found.columns
    assert [columns.ops[index] for index in columns.op] == ["gloo:all_reduce", "gloo:all_gather", "gloo:broadcast"]
    assert columns.seq.tolist() == [1, 2, 3]
    assert columns.retired.all()
    assert found.status["0"].last_completed == 3


def test_both_forms_of_one_recorder_give_the_same_columns() -> None:
    (other,) = flight_json.read(Blob(NAME, JSON)).observations
    assert isinstance(other, FlightDump)
    same(dump(PICKLE), other)


def same(one: FlightDump, other: FlightDump) -> None:
    assert one.status == other.status
    for field in dataclasses.fields(one.columns):
        mine, theirs = getattr(one.columns, field.name), getattr(other.columns, field.name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)
        else:
            assert mine == theirs, field.name


@pytest.mark.parametrize("end", range(60, len(PICKLE), 13))
def test_a_cut_dump_gives_the_entries_before_the_cut_and_says_so(end: int) -> None:
    reading = read(PICKLE[:end])
    assert [problem.kind for problem in reading.problems] == [ProblemKind.DAMAGED]
    for found in reading.observations:
        assert isinstance(found, FlightDump)
        assert found.cut
        assert len(found.columns) <= 3
    assert bool(reading.observations) == (end > PICKLE.index(b"pg_config") + 14)


def test_of_a_dump_cut_before_its_last_byte_every_entry_and_counter_is_there() -> None:
    found = dump(PICKLE[:-2])
    assert found.columns.seq.tolist() == [1, 2, 3]
    assert found.status["0"].last_completed == 3
    assert found.version == (2, 10)


@given(st.lists(st.tuples(st.integers(2, len(PICKLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_flipped_bytes_end_in_a_dump_or_in_words(flips: list[tuple[int, int]]) -> None:
    data = bytearray(PICKLE)
    for place, byte in flips:
        data[place] = byte
    reading = read(bytes(data))
    assert reading.observations or reading.problems


@given(st.integers(2, len(PICKLE)), st.integers(0, len(PICKLE)))
@settings(max_examples=200, deadline=None)
def test_spliced_dumps_end_in_a_dump_or_in_words(head: int, tail: int) -> None:
    reading = read(PICKLE[:head] + PICKLE[tail:])
    assert reading.observations or reading.problems


def test_code_is_refused_with_the_reason_and_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    reading = read(top(entry(frames=[Hostile()])))
    assert reading.observations == ()
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.REFUSED
    assert "nothing of it was run" in problem.message
    assert not marker.exists()


@pytest.mark.parametrize(
    "value",
    [None, True, -1, 2**300, 1e308, float("inf"), float("nan"), "x" * 10_000, [], [[]], [[[]]], {}, (1, 2), ["a"]],
    ids=repr,
)
def test_any_value_in_any_field_of_an_entry(value: Any) -> None:
    whole = read(PICKLE).observations[0]
    assert isinstance(whole, FlightDump)
    for key in (
        "frames", "record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "op_id", "profiling_name",
        "time_created_ns", "duration_ms", "input_sizes", "input_dtypes", "output_sizes", "state", "retired", "is_p2p",
        "time_discovered_completed_ns", "timeout_ms",
    ):  # fmt: skip
        reading = read(top(entry(**{key: value})))
        assert [len(found.columns) for found in reading.observations if isinstance(found, FlightDump)] == [1], key
    for key in ("version", "pg_config", "pg_status", "comm_lib_version"):
        assert read(top(entry(), **{key: value})).observations, key


def test_one_long_list_shared_by_all_entries_and_groups_costs_no_more_than_its_bytes() -> None:
    long = list(range(200_000))
    shared = [long] * 500
    entries = [entry(record_id=number, input_sizes=shared, frames=shared, input_dtypes=long) for number in range(1000)]
    groups = {str(number): {"name": str(number), "desc": "d", "ranks": long} for number in range(1000)}
    data = top(*entries, pg_config=groups)
    started = time.process_time()
    (found,) = flight_pickle.read_pure(Blob(NAME, data)).observations
    assert time.process_time() - started < 8.0
    assert isinstance(found, FlightDump)
    assert len(found.columns) == 1000
    started = time.process_time()
    (other,) = flight_pickle.read(Blob(NAME, data)).observations
    assert time.process_time() - started < 8.0
    assert isinstance(other, FlightDump)
    same(other, found)
    text = "[" + ", ".join(map(str, long)) + "]"
    data = top(entry(), pg_config={key: {**row, "ranks": text} for key, row in groups.items()})
    started = time.process_time()
    flight_pickle.read_pure(Blob(NAME, data))
    flight_pickle.read(Blob(NAME, data))
    assert time.process_time() - started < 4.0


def test_a_list_in_itself_as_a_size() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert len(dump(top(entry(input_sizes=loop, process_group=loop, frames=loop))).columns) == 1


@pytest.mark.parametrize("ranks", ["[0, 1, 2, 1000000000]", "[0, 1, 999999999]", [0, 1, 10**9], "[0, 1, " + "9" * 9999])
def test_members_that_cannot_be_ranks_make_the_list_unknown(ranks: object) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    entry = {"record_id": 1, "profiling_name": "nccl:all_reduce", "process_group": ("0", "default_pg"), "pg_id": 0}
    dump = pickle.dumps({"version": "2.10", "pg_config": config, "entries": [entry]}, protocol=2)
    (found,) = flight_pickle.read(Blob("nccl_trace_rank_0", dump)).observations
    assert isinstance(found, FlightDump)
    assert [group.members for group in found.columns.groups] == [None]
