"""NCCL Inspector's files as they grow: durations by class of collective."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from log_target import polled, process, target

from rankmuster.collect.target import Target
from rankmuster.model.collective_names import COLLECTIVE_NAMES
from rankmuster.watch.signals.inspector import MOST_BYTES, InspectorSignal
from rankmuster.watch.signals.signal import Counted

PID = os.getpid()


def line(op: str = "AllReduce", micros: float = 250.0, kind: str = "coll") -> str:
    return json.dumps(
        {
            "header": {"id": "0x9e7a479f95a66c", "rank": 0, "n_ranks": 8, "nnodes": 1},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "git_rev": "",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1748030377748202,
                "hostname": "node0",
                "pid": PID,
            },
            f"{kind}_perf": {
                kind: op,
                f"{kind}_sn": 77,
                f"{kind}_msg_size_bytes": 17179869184,
                f"{kind}_exec_time_us": micros,
                f"{kind}_algobw_gbs": 279.8,
                f"{kind}_busbw_gbs": 489.7,
            },
        }
    )


def _target(folder: Path, **environ: str) -> Target:
    return target(process(PID, 0, NCCL_INSPECTOR_ENABLE="1", NCCL_INSPECTOR_DUMP_DIR=str(folder), **environ))


def _classes(said: list[object]) -> dict[str, tuple[float, ...]]:
    assert all(isinstance(one, Counted) and one.what == "collective" for one in said)
    assert all(dict(one.labels)["source"] == "inspector" for one in said if isinstance(one, Counted))
    return {dict(one.labels)["collective"]: one.values for one in said if isinstance(one, Counted)}


def add(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{one}\n" for one in lines))


def test_each_operation_counts_with_its_seconds_by_class(tmp_path: Path) -> None:
    log = tmp_path / f"node0-pid{PID}.log"
    add(log, line())  # of before
    add(tmp_path / f"node0-pid{PID + 1}.log", line())
    signal = InspectorSignal(_target(tmp_path))
    assert signal.wanted
    assert polled(signal) == []
    add(tmp_path / f"node0-pid{PID + 1}.log", line("Broadcast"))  # another instance's
    add(log, line("AllReduce", 100), line("AllGather", 2000.5), line("ALLREDUCE", 300), line("Send", 5, "p2p"))
    classes = _classes(polled(signal))
    assert classes["all_reduce"] == pytest.approx((1e-4, 3e-4))
    assert classes["all_gather"] == pytest.approx((0.0020005,))
    assert classes["send"] == pytest.approx((5e-6,))
    assert set(classes) <= set(COLLECTIVE_NAMES)
    assert polled(signal) == []
    signal.close()


def test_a_file_that_comes_after_the_start_is_read_from_its_start(tmp_path: Path) -> None:
    now = [0.0]
    signal = InspectorSignal(_target(tmp_path / "made-later"), clock=lambda: now[0])
    assert polled(signal) == []
    assert "no file of these processes" in signal.note
    (tmp_path / "made-later").mkdir()
    add(tmp_path / "made-later" / f"node0-pid{PID}.log", line("ReduceScatter"))
    now[0] = 60.0
    assert list(_classes(polled(signal))) == ["reduce_scatter"]
    assert signal.note == ""
    signal.close()


def test_thousands_of_lines_are_sampled_and_weighed(tmp_path: Path) -> None:
    log = tmp_path / f"node0-pid{PID}.log"
    log.touch()
    signal = InspectorSignal(_target(tmp_path))
    polled(signal)
    add(log, *[line()] * 5000)
    [counted] = polled(signal)
    assert isinstance(counted, Counted)
    assert len(counted.values) < MOST_BYTES / 200
    assert sum(counted.counts) == pytest.approx(5000, rel=0.02)
    assert signal.sampled < 0.1
    add(log, line())
    [counted] = polled(signal)
    assert isinstance(counted, Counted)
    assert (counted.counts, signal.sampled) == ((), 1.0)
    signal.close()


def test_a_folder_of_the_configuration(tmp_path: Path) -> None:
    log = tmp_path / f"node0-pid{PID}.log"
    log.touch()
    signal = InspectorSignal(target(process(PID, 0)), folders=(tmp_path, tmp_path))
    polled(signal)
    add(log, line())
    assert _classes(polled(signal)) == {"all_reduce": pytest.approx((2.5e-4,))}
    signal.close()


@pytest.mark.parametrize(
    "junk",
    [
        "{}",
        "not json",
        '{"coll": "' + "x" * 100_000,
        '{"coll":"AllReduce","coll_exec_time_us":-5}',
        '{"coll":"AllReduce","coll_exec_time_us":NaN}',
        '{"coll":"AllReduce","coll_exec_time_us":1e400}'.replace("1e400", "9" * 16),
        '"coll":"' * 14_000,
        '{"coll":"\x00","coll_exec_time_us":null}',
    ],
)
def test_lines_that_are_no_records_are_left_out(tmp_path: Path, junk: str) -> None:
    log = tmp_path / f"node0-pid{PID}.log"
    log.touch()
    signal = InspectorSignal(_target(tmp_path))
    polled(signal)
    add(log, junk, line("AllGather"))
    assert list(_classes(polled(signal))) == ["all_gather"]
    signal.close()


def test_without_the_plugin_there_is_nothing_to_follow(tmp_path: Path) -> None:
    for environ in ({}, {"NCCL_INSPECTOR_ENABLE": "0"}):
        signal = InspectorSignal(target(process(PID, 0, **environ)))
        assert not signal.wanted
        assert polled(signal) == []
        signal.close()
    assert not InspectorSignal(None).wanted


def test_a_trap_under_the_files_name_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"node0-pid{PID}.log")
    signal = InspectorSignal(_target(tmp_path))
    assert polled(signal) == []
    signal.close()
