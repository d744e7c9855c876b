"""JSON dumps as evidence: the same columns as the pickle's, and what a damaged one leaves."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from flight_sample import JSON
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import flight_json
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.bundle import gather
from rankmuster.model.flight import FlightDump
from rankmuster.model.problem import ProblemKind

NAME = "flight/nccl_trace_rank_3.json"


def read(data: bytes) -> Reading:
    return flight_json.read(Blob(NAME, data))


def test_a_real_dump() -> None:
    (found,) = read(JSON).observations
    assert isinstance(found, FlightDump)
    assert (found.rank, found.form, found.version) == (3, "json", (2, 10))
    assert found.status["0"].last_enqueued == 3
    assert found.columns.completed_ns.tolist() == [0, 0, 0]


def test_a_dump_without_entries_has_no_such_key() -> None:
    top = json.loads(JSON)
    del top["entries"]
    data = json.dumps(top).encode()
    assert flight_json.recognises(Blob(NAME, data))
    (found,) = read(data).observations
    assert isinstance(found, FlightDump)
    assert len(found.columns) == 0


@pytest.mark.parametrize("end", range(100, len(JSON), 29))
def test_a_cut_dump_gives_the_entries_that_stand_whole(end: int) -> None:
    reading = read(JSON[:end])
    assert [problem.kind for problem in reading.problems] == [ProblemKind.DAMAGED]
    whole = JSON[:end].count(b'"timeout_ms":1800000}')
    for found in reading.observations:
        assert isinstance(found, FlightDump)
        assert len(found.columns) == whole


@given(st.lists(st.tuples(st.integers(1, len(JSON) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_flipped_bytes_end_in_a_dump_or_in_words(flips: list[tuple[int, int]]) -> None:
    data = bytearray(JSON)
    for place, byte in flips:
        data[place] = byte
    reading = read(bytes(data))
    assert reading.observations or reading.problems


@given(st.binary(max_size=300), st.integers(0, len(JSON)))
@settings(max_examples=200, deadline=None)
def test_any_bytes_behind_any_part(data: bytes, end: int) -> None:
    gather([Blob(NAME, JSON[:end] + data)])


@pytest.mark.parametrize(
    "value",
    ["[" * 50_000, "1" + "0" * 5_000, "1e999", "-1e999", "NaN", '"' + "x" * 100_000 + '"', "{}", "null", "[[[[1]]]]"],
    ids=lambda text: text[:10],
)
@pytest.mark.parametrize("key", ["input_sizes", "time_created_ns", "collective_seq_id", "process_group", "state"])
def test_odd_values_cost_one_entry_at_most(key: str, value: str) -> None:
    top: dict[str, Any] = json.loads(JSON)
    top["entries"][2][key] = "HERE"
    started = time.perf_counter()
    reading = read(json.dumps(top).replace('"HERE"', value).encode())
    assert time.perf_counter() - started < 1.0
    (found,) = reading.observations
    assert isinstance(found, FlightDump)
    assert len(found.columns) >= 2
