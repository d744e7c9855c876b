"""JSON dumps come out the same whichever library decodes them, and whether entries are taken together or one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flight_readers import compared
from flight_sample import JSON
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import flight_json
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.flight_dump import reading
from rankmuster.evidence.flight_many import add_all
from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.flight import FlightDump

NAME = "flight/nccl_trace_rank_3.json"
ENTRY: dict[str, Any] = json.loads(JSON)["entries"][0]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()
    | st.sampled_from(["12", "-7", "x" * 600, "\ud800", "completed", "started", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip
FIELDS = st.dictionaries(st.sampled_from([*ENTRY, "frames", "pg_name", "duration_ms"]), VALUES, max_size=4)


def one_by_one(data: bytes) -> Reading:
    """By the standard library, and one entry after the other."""
    top = json.loads(data.decode("utf-8-sig"))
    builder = ColumnBuilder()
    for entry in top["entries"]:
        if isinstance(entry, dict):
            builder.add(entry)
    return reading(NAME, "json", top, builder, None)


def same(data: bytes) -> FlightDump:
    found = flight_json.read(Blob(NAME, data))
    assert compared(found, one_by_one(data)) is None
    (dump,) = found.observations
    assert isinstance(dump, FlightDump)
    return dump


@given(st.lists(FIELDS, max_size=8), st.lists(st.integers(0, 7), max_size=20))
@settings(max_examples=200, deadline=None)
def test_odd_values_in_entries_of_which_some_come_again(changes: list[dict[str, Any]], order: list[int]) -> None:
    entries = [{**ENTRY, **fields} for fields in changes]
    entries += [entries[place] for place in order if place < len(entries)]
    same(json.dumps({"version": "2.10", "pg_config": {}, "entries": entries}).encode())


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e999", "1" + "0" * 400, "-9223372036854775809", "18446744073709551616", "-0", "1.0", "0.1",
     '"\\ud800"', '"\\ud83d\\ude42"', "[" * 300 + "]" * 300, '{"a": 1, "a": 2}', '"\\u0000"', "true", "[[null]]"],
    ids=lambda text: text[:12],
)  # fmt: skip
@pytest.mark.parametrize("key", ["input_sizes", "time_created_ns", "duration_ms", "profiling_name", "pg_id"])
def test_what_only_one_of_the_libraries_takes(key: str, value: str) -> None:
    text = json.dumps({"version": "2.10", "pg_config": {}, "entries": [ENTRY, {**ENTRY, key: "HERE"}, ENTRY]})
    assert len(same(text.replace('"HERE"', value).encode()).columns) == 3


def test_duplicate_keys_a_byte_order_mark_and_no_entries() -> None:
    assert len(same(b'\xef\xbb\xbf{"version": "2.9", "version": "2.10", "pg_config": {}, "entries": []}').columns) == 0


@pytest.mark.parametrize("items", [0, 3, 10, 100])
def test_the_allowance_for_sizes_is_the_same(items: int) -> None:
    entries = [{**ENTRY, "input_sizes": [[1, 2, number % 3]], "pg_id": number % 2} for number in range(40)]
    together, alone = ColumnBuilder(), ColumnBuilder()
    together.items = alone.items = items
    add_all(together, entries)
    for entry in entries:
        alone.add(entry)
    assert together.call == alone.call
    assert together.items == alone.items
    assert together.last_pg_id == alone.last_pg_id
    assert together.calls.values() == alone.calls.values()
