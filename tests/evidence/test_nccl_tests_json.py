"""nccl-tests' JSON of every version, and any bytes at all in its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_tests_sample import OLD, output
from rankmuster.evidence.nccl_tests import read_json, read_runs
from rankmuster.model.benchmark import BenchmarkRun, RunState

PLATEAU = tuple(1 << shift for shift in range(20, 26))


def document(version: int = 3, **changes: Any) -> dict[str, Any]:
    average = "average_bus_bandwidth" if version > 1 else "average_bus_bandwidith"
    sizes = (16 << 20, 64 << 20)
    half = {"time": 100.0, "alg_bw": 167.772, "bus_bw": 293.601, "nwrong": 0.0}
    return {
        "version": version,
        "start_time": "2026-11-29 19:25:26",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-g", "4"],
        "env": [
            "NCCL_ALGO=Ring",
            "HF_TOKEN=hf_abcdefghijklmnop",
            "CUDA_API_KEY=x",
            "NCCL_PLUGIN_AUTH_TOKEN=y",
            "HOME=/root",
        ],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1,
            "ngpus": 4,
            "minimum_bytes": sizes[0],
            "maximum_bytes": sizes[1],
            "step_factor": 4,
            "validation": 1,
            "graph": 0,
            "devices": [
                {
                    "rank": rank,
                    "group": 0,
                    "pid": 70 + rank,
                    "hostname": f"n{rank}",
                    "device": 0,
                    "device_hex": "0001:0a:00",
                }
                for rank in (0, 4)
            ],
        },
        "results": [
            {
                "size": size,
                "count": size // 4,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": {**half, "time": 100.0 * size / sizes[0]},
                "in_place": {**half, "time": 100.0 * size / sizes[0], "nwrong": "nan"},
            }
            for size in sizes
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        average: {"bandwidth": 293.601, "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-11-29 19:25:36",
    } | changes


def of_json(value: dict[str, Any]) -> BenchmarkRun:
    return read_json(json.dumps(value, indent=1).encode(), "x.json")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_json(version: int) -> None:
    run = of_json(document(version))
    assert run.state is RunState.COMPLETE, run.reason
    assert [one.wrong for one in run.measurements] == [0, None, 0, None]
    assert [(rank.rank, rank.host, rank.device) for rank in run.ranks] == [
        *((rank, "n0", rank) for rank in range(4)),
        *((4 + rank, "n4", rank) for rank in range(4)),
    ]
    assert run.environment == (("NCCL_ALGO", "Ring"),)
    assert run.started_at is None  # local time without a zone may be any


def test_times_of_each_process_tell_the_slow_one() -> None:
    value = document()
    value["results"][0]["out_of_place_per_iter"] = {
        "times_us": [100.0, 102.0],
        "min_us": 100.0,
        "per_process_max_times_us": [[90.0, 92.0], [100.0, 102.0]],
    }
    one = of_json(value).measurements[0]
    assert one.ranks_us == (91.0, 101.0)
    assert one.iterations_us == (100.0, 102.0)


def test_what_a_json_lacks_is_named() -> None:
    short = document()
    short["results"].pop()
    run = of_json(short)
    assert run.state is RunState.INCOMPLETE
    assert str(64 << 20) in run.reason
    wrong = document(out_of_bounds={"count": 2, "okay": "false"})
    assert of_json(wrong).state is RunState.WRONG
    gone = document()
    del gone["out_of_bounds"]
    assert of_json(gone).state is RunState.INCOMPLETE


def test_a_json_of_anything_else_is_no_run() -> None:
    assert read_runs(b'{"version": 3, "schema": "x"}', "x.json") == ()
    assert read_json(b"\x00\xff{", "x.json").state is RunState.INCOMPLETE


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_raise(data: st.DataObject) -> None:
    base = bytearray(
        data.draw(st.sampled_from([output(sizes=PLATEAU), output(shape=OLD), json.dumps(document())])).encode()
    )
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(base) - 1))
        base[place : place + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
        if not base:
            return
    for run in read_runs(bytes(base), "out.txt"):
        assert run.state is RunState.COMPLETE or run.reason
    read_json(bytes(base), "x")


def test_what_a_json_claims_is_held_against_its_numbers() -> None:
    assert of_json(document()).members == 8
    other = of_json(document(args=["/opt/nccl-tests/build/all_gather_perf", "-g", "4"]))
    assert (other.state, other.measurements) == (RunState.ERROR, ())
    assert "all_gather_perf" in other.reason
    fewer = document()
    fewer["config"]["devices"].pop()
    assert of_json(fewer).state is RunState.ERROR
    hole = document()
    hole["config"]["devices"].pop(0)
    run = of_json(hole)
    assert (run.state, run.members) == (RunState.COMPLETE, 8)
    assert "names 4 of 8" in run.reason


@pytest.mark.parametrize("bandwidth", ["nan", None, 29.3601, -293.601])
def test_a_jsons_average_has_to_be_that_of_its_results(bandwidth: object) -> None:
    run = of_json(document(average_bus_bandwidth={"bandwidth": bandwidth, "okay": "unchecked"}))
    assert run.state is RunState.INCOMPLETE
    assert "Avg bus bandwidth" in run.reason


@pytest.mark.parametrize(("name", "value"), [("size", -(16 << 20)), ("count", 7), ("count", -1), ("size", None)])
def test_a_jsons_result_that_cannot_be_is_not_complete(name: str, value: object) -> None:
    changed = document()
    changed["results"][0][name] = value
    run = of_json(changed)
    assert run.state in (RunState.INCOMPLETE, RunState.ERROR)
    assert all(one.cell.size_bytes > 0 for one in run.measurements)


def test_a_json_without_the_sizes_it_was_started_for_is_not_complete() -> None:
    changed = document()
    del changed["config"]["maximum_bytes"]
    assert of_json(changed).state is RunState.INCOMPLETE
