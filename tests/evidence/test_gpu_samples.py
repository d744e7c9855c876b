"""Samples per GPU: columns that line up, whatever a collector left out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import gpu_samples
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.problem import ProblemKind

CAPTURED = """\
{"time": 1795986350.7275589, "host": "10.77.0.1", "gpu": 0, "sm_util_percent": 0, "memory_util_percent": 0, \
"power_w": 78.482, "sm_clock_mhz": 345, "nvlink_tx_kib": 4001416, "nvlink_rx_kib": 3885433, "pids": []}
{"time": 1795986350.8215444, "host": "10.77.0.1", "gpu": 1, "sm_util_percent": 0, "memory_util_percent": 0, \
"power_w": 78.525, "sm_clock_mhz": 1980, "nvlink_tx_kib": 4000840, "nvlink_rx_kib": 3886072, "pids": [4283]}
{"time": 1795986351.3, "host": "10.77.0.1", "gpu": 0, "sm_util_percent": 100, "memory_util_percent": 2, \
"power_w": 120.5, "sm_clock_mhz": 1980, "nvlink_tx_kib": 4001500, "nvlink_rx_kib": 3885500, "pids": [4282]}
"""


def read(data: str, path: str = "gpu-counters.jsonl") -> tuple[list[GpuTrack], Reading]:
    blob = Blob(path, data.encode())
    assert gpu_samples.recognises(blob)
    reading = gpu_samples.read(blob)
    tracks = [track for track in reading.observations if isinstance(track, GpuTrack)]
    return tracks, reading


def lines(*samples: dict[str, object]) -> str:
    return "".join(json.dumps(sample) + "\n" for sample in samples)


def test_captured_samples_become_one_track_per_gpu():
    (first, second), reading = read(CAPTURED)
    assert (first.host, first.gpu, second.gpu) == ("10.77.0.1", 0, 1)
    assert first.time.tolist() == [1795986350.7275589, 1795986351.3]
    assert first.sm_percent.tolist() == [0.0, 100.0]
    assert first.power_w.tolist() == [78.482, 120.5]
    assert first.nvlink_tx_kib.tolist() == [4001416.0, 4001500.0]
    assert first.pids == ((), (4282,))
    assert np.isnan(first.pcie_tx_kib).all()
    assert (reading.known, reading.problems) == (3, ())


def test_the_same_index_on_two_hosts_is_two_gpus():
    data = CAPTURED + CAPTURED.replace("10.77.0.1", "10.77.0.2")
    assert [(t.host, t.gpu) for t in read(data)[0]] == [
        ("10.77.0.1", 0), ("10.77.0.1", 1), ("10.77.0.2", 0), ("10.77.0.2", 1),
    ]  # fmt: skip


def test_samples_out_of_order_are_sorted_and_their_columns_stay_together():
    (track,), _ = read(
        lines(
            {"time": 1795986352.0, "gpu": 0, "power_w": 2, "pids": [2]},
            {"time": 1795986351.0, "gpu": 0, "power_w": 1, "pids": [1]},
        )
    )
    assert (track.time.tolist(), track.power_w.tolist(), track.pids) == (
        [1795986351.0, 1795986352.0],
        [1, 2],
        ((1,), (2,)),
    )


def test_absent_and_null_values_are_unknown_not_zero():
    (track,), reading = read(
        lines(
            {"time": 1795986351.0, "gpu": 0, "power_w": None, "sm_util_percent": 3},
            {"time": 1795986352.0, "gpu": 0, "sm_util_percent": "N/A", "fan": 3},
        )
    )
    assert np.isnan(track.power_w).all()
    assert track.sm_percent[0] == 3
    assert math.isnan(track.sm_percent[1])
    assert track.pids == (None, None)
    assert reading.problems == ()


@pytest.mark.parametrize(
    ("key", "value"), [("pcie_tx_kib", 2048), ("pcie_tx_kb", 2048), ("pcie_tx_bytes", 2048 * 1024)]
)
def test_counters_are_kib_in_every_spelling(key: str, value: int):
    (track,), _ = read(lines({"time": 1795986351.0, "gpu": 0, "power_w": 1, key: value}))
    assert track.pcie_tx_kib.tolist() == [2048.0]


def test_times_in_milliseconds_and_as_text_are_unix_seconds():
    (track,), _ = read(
        lines(
            {"time": 1795986351500, "gpu": 0, "power_w": 1},
            {"time": "2026-11-29T21:05:52Z", "gpu": 0, "power_w": 1},
        )
    )
    assert track.time.tolist() == [1795986351.5, 1795986352.0]


def test_a_host_that_only_the_path_names_and_the_identity_of_the_gpu():
    data = lines({"time": 1795986351.0, "gpu": 2, "power_w": 1, "uuid": "GPU-7", "pci_bus_id": "0000:1B:00.0"})
    (track,), _ = read(data, "node=a7/gpu.jsonl")
    assert (track.host, track.gpu, track.uuid, track.bus_id) == ("a7", 2, "GPU-7", "0000:1B:00.0")


def test_a_cut_last_line_is_named_and_the_rest_is_used():
    (first, second), reading = read(CAPTURED[:-40])
    assert (len(first.time), len(second.time)) == (1, 1)
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.DAMAGED
    assert "line 3" in problem.message
    assert "2 were used" in problem.message


@pytest.mark.parametrize(
    "odd",
    [
        '{"time": 1795986351.0, "gpu": 1e400, "power_w": 1}',
        '{"time": 1795986351.0, "gpu": -1, "power_w": 1}',
        '{"time": 1795986351.0, "gpu": true, "power_w": 1}',
        '{"time": "yesterday", "gpu": 0, "power_w": 1}',
        '{"time": NaN, "gpu": 0}',
        "[" * 50_000,
        '{"time": ' + "9" * 5000 + ', "gpu": 0}',
    ],
)
def test_a_line_without_a_gpu_or_a_time_is_named_not_guessed(odd: str):
    tracks, reading = read(CAPTURED + odd + "\n")
    assert sum(len(track.time) for track in tracks) == 3
    assert len(reading.problems) == 1


def test_a_number_too_large_to_be_true_is_unknown():
    (track,), _ = read(lines({"time": 1795986351.0, "gpu": 0, "power_w": 10**400, "sm_util_percent": -4}))
    assert np.isnan(track.power_w).all()
    assert np.isnan(track.sm_percent).all()


def test_a_json_list_of_samples_is_read_too():
    samples = [json.loads(line) for line in CAPTURED.splitlines()]
    assert len(read(json.dumps(samples))[0]) == 2


@given(st.integers(0, len(CAPTURED)), st.integers(0, len(CAPTURED)), st.binary(max_size=100))
@settings(max_examples=80, deadline=None)
def test_no_damage_raises(cut: int, start: int, noise: bytes):
    data = CAPTURED.encode()
    for damaged in (data[:cut], data[start:], data[:cut] + noise + data[start:], noise, b"[" + data[:cut]):
        assert isinstance(gpu_samples.read(Blob("x", damaged)), Reading)
        gpu_samples.recognises(Blob("x", damaged))
