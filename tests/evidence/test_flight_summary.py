"""A summary gives the dumps of a node back, small; damaged or hostile ones cost that node's window and one line."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flight_sample import JSON, PICKLE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from summary_sample import NODE, WRITTEN, differences, dumps_of, read, summarised

from rankmuster.evidence import flight_summary
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.bundle import Evidence, gather
from rankmuster.evidence.flight_summary_frame import FREE_VALUES, MAGIC, allowance, join, split
from rankmuster.evidence.flight_summary_node import OF_A_NODE, gathered
from rankmuster.evidence.flight_summary_schema import COLUMNS
from rankmuster.evidence.flight_summary_write import encode
from rankmuster.evidence.packed_stream import packing_of
from rankmuster.model.flight import DumpRequest, FlightDump
from rankmuster.model.flight_summary import FlightSummary
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.problem import ProblemKind

ENTRY_COLUMNS = (*COLUMNS, "stack")
LOOK = 1795980500.25
MANIFEST = {
    "schema": "rankmuster.bundle/1",
    "files": {"flight/nccl_trace_rank_3": {"look_time": LOOK, "rank": 11, "host": "10.0.0.7"}},
    "clock_offsets": {"10.0.0.7": -0.25},
}
ASKED = {"schema": "rankmuster.dump-requests/1", "requests": [{"rank": 3, "asked": 1795980499.0, "written": None}]}


def entry(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "record_id": number,
        "profiling_name": "nccl:all_reduce",
        "process_group": ("0", "d\udc80é"),
        "time_created_ns": 1795980207302543424 + number * 1_000_003,
        "input_sizes": [[number % 3, 4096], []],
        "input_dtypes": ["Float"],
        "pg_id": 0,
        "state": "completed",
        **fields,
    }


def dumped(*entries: dict[str, Any], **fields: Any) -> bytes:
    top = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "d\udc80é", "ranks": "[0, 1, 3]"}}, **fields}
    return pickle.dumps({**top, "entries": list(entries)}, protocol=2)


def evidence(**files: bytes) -> Evidence:
    return gather([Blob(f"flight/{name}", data) for name, data in files.items()], OF_A_NODE)


def sample() -> Evidence:
    return evidence(
        nccl_trace_rank_3=PICKLE,
        nccl_trace_rank_4=JSON,
        nccl_trace_rank_5=dumped(*(entry(number) for number in range(300))),
        nccl_trace_rank_6=dumped(*(entry(number) for number in range(300)))[:-4000],
        nccl_trace_rank_7=b"",
        nccl_trace_rank_8=pickle.dumps(Path("/"), protocol=2),
    )


def facts(reading: Reading) -> FlightSummary:
    (found,) = [value for value in reading.observations if isinstance(value, FlightSummary)]
    return found


def test_dumps_come_back_as_they_were() -> None:
    before = sample()
    after = dumps_of(read(summarised(before)))
    originals = [*before.of(FlightDump)]
    assert len(originals) == 4
    for dump in originals:
        (again,) = [other for other in after if other.source == f"{NODE}/{dump.source}"]
        assert differences(replace(dump, source=again.source), again) == []
        assert bool(len(again.columns.stacks)) == bool(len(dump.columns.stacks))
        assert (again.columns.stack[:-1] == -1).all()
        assert last_stack(again) == last_stack(dump)
    assert originals[-1].cut


def last_stack(dump: FlightDump) -> tuple[str, ...] | None:
    place = int(dump.columns.stack[-1])
    return dump.columns.stacks[place] if place >= 0 else None


def test_the_last_call_alone_keeps_its_stack() -> None:
    frames = [[{"name": f"call{number}", "filename": "serve.py", "line": number}] for number in range(3)]
    ended = dumped(*(entry(number, frames=frames[number]) for number in range(3)))
    bare = dumped(*(entry(number, frames=frames[number]) for number in range(2)), entry(2))
    with_last, without, none = dumps_of(read(summarised(evidence(rank_0=ended, rank_1=bare, rank_2=dumped(entry(0))))))
    assert (with_last.columns.stacks, with_last.columns.stack.tolist()) == ((("call2 serve.py:2",),), [-1, -1, 0])
    assert (without.columns.stacks, without.columns.stack.tolist()) == (((),), [-1, -1, -1])
    assert (none.columns.stacks, none.columns.stack.tolist()) == ((), [-1])


def test_files_of_which_nothing_is_usable_are_dumps_all_the_same() -> None:
    """Otherwise their ranks would look like ranks that left none."""
    reading = read(summarised(sample()))
    bare = {dump.rank: dump for dump in dumps_of(reading) if not len(dump.columns)}
    assert sorted(bare) == [7, 8]
    assert all(dump.cut and not dump.status for dump in bare.values())
    told = {problem.source: problem for problem in reading.problems}
    assert "entries before that used" in told[f"{NODE}/flight/nccl_trace_rank_6"].message
    assert "empty" in told[f"{NODE}/flight/nccl_trace_rank_7"].message
    assert told[f"{NODE}/flight/nccl_trace_rank_8"].kind is ProblemKind.REFUSED


def test_what_the_manifest_knows_is_in_the_dumps() -> None:
    found = gather(
        [
            Blob("manifest.json", json.dumps(MANIFEST).encode()),
            Blob("flight/asked.json", json.dumps(ASKED).encode()),
            Blob("flight/nccl_trace_rank_3", PICKLE),
            Blob("flight/nccl_trace_rank_5", PICKLE),
            Blob("logs/rank5.log", b"nothing of interest\n"),
        ],
        OF_A_NODE,
    )
    reading = read(summarised(found, host="node-7"))
    first, second = dumps_of(reading)
    assert (first.rank, first.host, first.time and first.time.unix_seconds) == (11, "10.0.0.7", LOOK)
    assert (second.rank, second.host, second.time) == (5, "node-7", None)
    (offsets,) = [value for value in reading.observations if isinstance(value, ManifestFacts)]
    assert offsets.clock_offsets == {"10.0.0.7": -0.25}
    (asked,) = [value for value in reading.observations if isinstance(value, DumpRequest)]
    assert (asked.rank, asked.asked, asked.written) == (3, 1795980499.0, None)
    assert reading.problems == ()


def test_what_is_known_of_the_file() -> None:
    data = summarised(sample(), host="node-7")
    found = facts(read(data))
    assert (found.source, found.node, found.host, found.written) == ("summaries/n7.rfs", NODE, "node-7", WRITTEN)
    assert found.ranks == (3, 4, 5, 6, 7, 8)
    assert found.entries == gathered(sample(), NODE, None, WRITTEN).entries
    assert found.from_ns < found.to_ns
    assert found.digest == facts(read(data)).digest != facts(read(summarised(sample()))).digest
    assert found.damage is None


def test_ranks_that_do_the_same_share_their_tables() -> None:
    one, two = dumps_of(read(summarised(evidence(rank_0=PICKLE, rank_1=PICKLE))))
    for name in ("groups", "ops", "sizes", "dtypes", "calls"):
        assert getattr(one.columns, name) is getattr(two.columns, name)


def test_a_regular_program_takes_little_room() -> None:
    data = summarised(evidence(rank_0=dumped(*(entry(number) for number in range(2000)))))
    assert len(data) < 2000


def test_nothing_else_takes_it_and_nothing_else_is_taken() -> None:
    data = summarised(sample())
    assert packing_of(data) is None
    found = gather([Blob("n7.rfs", data), Blob("nccl_trace_rank_3", PICKLE)])
    assert [source.readers for source in found.sources] == [("Flight Recorder summary",), ("Flight Recorder pickle",)]


def test_a_file_earns_what_it_unpacks_to() -> None:
    """Perfectly regular columns compress below what is believed: the writer adds zeros, and the file is read."""
    node = gathered(evidence(rank_0=dumped(entry(0), entry(1))), NODE, None, WRITTEN)
    (dump,) = node.dumps
    count = FREE_VALUES * 2
    numbers = np.arange(count)
    columns = replace(
        dump.columns,
        **{name: np.broadcast_to(getattr(dump.columns, name)[:1], count) for name in ENTRY_COLUMNS},
    )
    long = replace(dump, columns=replace(columns, record_id=numbers, op_id=numbers * 3))
    data = encode(replace(node, dumps=(long,)))
    (again,) = dumps_of(read(data))
    assert again.columns.record_id.tolist() == numbers.tolist()
    assert differences(replace(long, source=again.source), again) == []
    assert dumps_of(read(data.rstrip(b"\0")))[0].cut


def test_every_cut_costs_the_window_and_one_line() -> None:
    data = summarised(evidence(rank_3=PICKLE, rank_5=PICKLE))
    lost = []
    for size in range(5, len(data)):
        reading = read(data[:size])
        (problem,) = reading.problems
        assert (problem.kind, reading.known) == (ProblemKind.DAMAGED, 1)
        assert all(not len(dump.columns) for dump in dumps_of(reading))
        assert facts(reading).damage
        lost.append([dump.rank for dump in dumps_of(reading)])
    # The header stands first: a file that lost its columns alone still says whose they were.
    assert lost[0] == []
    assert lost[-1] == [3, 5]
    assert "ranks 3, 5 on n7" in read(data[:-1]).problems[0].message


def test_every_flipped_bit_costs_the_window_and_one_line() -> None:
    data = summarised(evidence(rank_3=PICKLE))
    for place in range(5, len(data)):
        spoilt = bytearray(data)
        spoilt[place] ^= 1 << place % 8
        reading = read(bytes(spoilt))
        assert len(reading.problems) == 1
        assert all(not len(dump.columns) for dump in dumps_of(reading))


def test_a_copy_that_changed_line_ends_is_told_as_such() -> None:
    spoilt = summarised(sample()).replace(b"\r\n", b"\n")
    assert flight_summary.recognises(Blob("x", spoilt))
    assert "line ends" in read(spoilt).problems[0].message


def test_another_schema_is_told_and_its_ranks_left_something() -> None:
    header, body = opened(summarised(evidence(rank_3=PICKLE)))
    header["schema"] = "rankmuster.flight-summary/2"
    header["dumps"][0]["columns"] = "of another shape"
    reading = read(closed(header, body))
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.REFUSED
    assert "'rankmuster.flight-summary/2'" in problem.message
    assert "rank 3 on n7" in problem.message
    (dump,) = dumps_of(reading)
    assert (dump.rank, dump.cut, len(dump.columns)) == (3, True, 0)


def opened(data: bytes) -> tuple[Any, bytes]:
    framed = split(data)
    assert framed.header is not None
    assert framed.body is not None
    return json.loads(framed.header), framed.body


def closed(header: Any, body: bytes) -> bytes:
    """A file of a header that no writer made, sound outside."""
    return join(json.dumps(header).encode(), body, 0)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, value in below for found in places(value, (*path, key)))]


def changed(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = changed(node[path[0]], path[1:], value)
    return copy


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([1 << 31, 1 << 62, 1 << 63, 1 << 64, -(1 << 63), 10**18, 10**400, FREE_VALUES, 1e308, 0.5]),
    st.text(max_size=4),
    st.sampled_from(
        [[], {}, [[]], ["s", 0, 0], ["n", 0, 8], ["d", 0, 0, 1], ["m", ["s", 1, 1]], [1 << 40, ["s", 0, 1]]]
    ),
)
SMALL = opened(summarised(evidence(rank_3=PICKLE, rank_5=dumped(*(entry(number) for number in range(9))))))
PLACES = places(SMALL[0])


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_hostile_headers(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """Whatever stands in a header that is sound outside: an answer, no more than the file earns, no exception."""
    header, body = SMALL
    for path, value in changes:
        try:
            header = changed(header, path, value)
        except (KeyError, IndexError, TypeError):  # an earlier change took the place away
            continue
    data = closed(header, body)
    reading = read(data)
    assert len([value for value in reading.observations if isinstance(value, FlightSummary)]) == 1
    for dump in dumps_of(reading):
        columns = dump.columns
        assert len(columns) <= allowance(len(data))
        assert {len(columns.call), len(columns.seq), len(columns.duration_ms), len(columns.retired)} == {len(columns)}
        for place in np.unique(columns.call):
            group, _, op, ins, outs, types, others, _, _ = columns.calls[place]
            assert columns.groups[group]
            assert isinstance(columns.ops[op], str)
            assert isinstance(columns.sizes[ins] + columns.sizes[outs], tuple)
            assert isinstance(columns.dtypes[types] + columns.dtypes[others], tuple)
        assert columns.stack.max(initial=-1) < len(columns.stacks)


@pytest.mark.parametrize("depth", [100_000, 2_000])
def test_nesting_meant_to_hurt(depth: int) -> None:
    assert read(join(b"[" * depth, b"", 0)).problems
    header, body = SMALL
    form: Any = ["s", 0, 0]
    for _ in range(500):
        form = ["m", form]
    nested = changed(header, ("dumps", 0, "columns", 5), form)
    assert read(closed(nested, body)).problems


def test_more_than_the_file_earns_is_refused_before_it_is_made() -> None:
    header, body = SMALL
    for count in (FREE_VALUES * 4, 1 << 40, 1 << 70):
        huge = changed(header, ("dumps", 0, "entries"), count)
        huge["dumps"][0]["columns"] = [["s", 0, 0]] * len(huge["dumps"][0]["columns"])
        (problem,) = read(closed(huge, body)).problems
        assert "stands where a number up to" in problem.message


def test_sizes_in_front_of_the_frames_are_not_believed() -> None:
    data = summarised(evidence(rank_3=PICKLE))
    start = len(MAGIC) + 16
    for sizes in (
        (1 << 31, 10, 10, 10),
        (10, 1 << 31, 10, 10),
        (10, 10, 1 << 60, 10),
        (10, 10, 10, 1 << 60),
        (0, 0, 0, 0),
    ):
        assert len(read(data[:start] + struct.pack("<IIQQ", *sizes) + data[start + 24 :]).problems) == 1


def test_a_bomb_is_not_unpacked() -> None:
    bomb = join(b" " * (1 << 20) * 16, b"\0" * (1 << 20) * 64, 0)
    trimmed = bomb.rstrip(b"\0")
    (problem,) = read(trimmed).problems
    assert problem.kind is ProblemKind.DAMAGED


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 200))
def test_any_bytes(tail: bytes, kept: int) -> None:
    data = summarised_once[: 5 + kept] + tail
    assert isinstance(read(data), Reading)


summarised_once = summarised(evidence(rank_3=PICKLE))


def test_no_dump_at_all() -> None:
    reading = read(encode(gathered(evidence(), NODE, None, WRITTEN)))
    assert (dumps_of(reading), reading.problems) == ([], ())
