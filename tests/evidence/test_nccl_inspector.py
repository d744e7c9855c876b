"""Inspector's JSON lines: completed operations, and nothing else believed to be one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.nccl_inspector import READER
from rankmuster.model.nccllog import NcclPerformance
from rankmuster.model.problem import ProblemKind
from rankmuster.model.stamp import unix

HEADER = {"id": "0x9e7a479f95a66c", "rank": 31, "n_ranks": 32, "nnodes": 4}
METADATA = {
    "inspector_output_format_version": "v4.0",
    "git_rev": "75e61acda-dirty",
    "rec_mechanism": "nccl_profiler_interface",
    "dump_timestamp_us": 1749490229087081,
    "hostname": "gpu-7",
    "pid": 468528,
}
COLLECTIVE = {
    "coll": "ReduceScatter",
    "coll_sn": 129,
    "coll_msg_size_bytes": 65536,
    "coll_exec_time_us": 110,
    "coll_timing_source": "kernel_gpu",
    "coll_algobw_gbs": 19.065018,
    "coll_busbw_gbs": 18.469236,
}
LINE = json.dumps({"header": HEADER, "metadata": METADATA, "coll_perf": COLLECTIVE}) + "\n"


def read(content: str, path: str = "gpu-7-pid468528.log") -> Reading:
    return READER.read(Blob(path, content.encode()))


def test_a_completed_collective_with_its_place_and_time() -> None:
    (found,) = read(LINE).observations
    assert found == NcclPerformance(
        source="gpu-7-pid468528.log",
        line=1,
        host="gpu-7",
        pid=468528,
        comm="009e7a479f95a66c",
        rank=31,
        nranks=32,
        op="ReduceScatter",
        sequence=129,
        bytes=65536,
        exec_us=110.0,
        bus_gbs=18.469236,
        peer=None,
        stamp=unix(1749490229.087081),
    )


def test_a_point_to_point_operation_names_its_peer() -> None:
    perf = {"p2p": "Send", "p2p_sn": 7, "p2p_peer": 3, "p2p_msg_size_bytes": 10, "p2p_exec_time_us": 5.5}
    (found,) = read(json.dumps({"header": HEADER, "metadata": METADATA, "p2p_perf": perf})).observations
    assert isinstance(found, NcclPerformance)
    assert (found.op, found.peer, found.sequence, found.exec_us, found.bus_gbs) == ("Send", 3, 7, 5.5, None)


def test_other_plugins_of_the_same_shape_and_flat_records_are_read() -> None:
    lean = json.dumps({"header": {"rank": 0, "n_ranks": 8}, "coll_perf": COLLECTIVE})
    flat = json.dumps(HEADER | METADATA | COLLECTIVE)
    ranks = [o.rank for o in read(f"{lean}\n{flat}\n").observations if isinstance(o, NcclPerformance)]
    assert ranks == [0, 31]


def test_a_cut_line_is_reported_and_the_others_are_kept() -> None:
    reading = read(LINE + LINE[:60] + "\n" + LINE)
    assert reading.known == 2
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]
    assert "line 2" in reading.problems[0].message


@pytest.mark.parametrize("value", ["1e999", "-5", "null", '"fast"', "true", "9" * 5000, "[" * 3000])
def test_a_time_that_is_none_is_not_believed(value: str) -> None:
    reading = read(LINE.replace("110", value))
    assert reading.observations == ()
    assert reading.problems


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LINE, True),
        ('{"header": {}, "metadata"', False),
        ('{"nccl_version": "2.28.9", "communicators": []}', False),
        ('the field "coll_exec_time_us" is explained below', False),
        ("", False),
    ],
)
def test_it_is_known_by_its_content(content: str, expected: bool) -> None:
    assert READER.recognises(Blob("x", content.encode())) is expected


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(LINE)), st.integers(0, len(LINE)), st.binary(max_size=40))
def test_damage_of_any_kind_is_survived(end: int, begin: int, noise: bytes) -> None:
    blob = Blob("x", LINE[:end].encode() + noise + LINE[begin:].encode())
    READER.recognises(blob)
    assert isinstance(READER.read(blob), Reading)
