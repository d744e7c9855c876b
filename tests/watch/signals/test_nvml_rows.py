"""The child's lines as tracks: nothing that it, or a broken library behind it, writes does harm."""

from __future__ import annotations

import math

import pytest

from rankmuster.watch.signals.gpu_meter import MOST_SECONDS, Meter
from rankmuster.watch.signals.gpu_rows import PCIE_FLOOR, Rows
from rankmuster.watch.signals.gpu_xid import Xids

LINE = {"kind": "moving", "gpu": 0, "time": 1000.0, "sm_util_percent": 100, "nvlink_tx_kib": 5, "nvlink_rx_kib": 6}


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": None},
        {"gpu": -1},
        {"gpu": True},
        {"gpu": 10**9},
        {"gpu": "0"},
        {"time": None},
        {"time": "now"},
        {"time": math.nan},
        {"time": math.inf},
        {"sm_util_percent": None, "nvlink_tx_kib": None},
        {"sm_util_percent": [], "nvlink_tx_kib": {}},
        {"sm_util_percent": -5, "nvlink_tx_kib": 1e300},
    ],
)
def test_what_is_no_sample_is_none(change):
    assert Rows("a").sample({**LINE, **change}) is None


def test_values_that_cannot_be_are_left_out_of_a_sample():
    rows = Rows("a")
    track = rows.sample({**LINE, "power_w": -3, "memory_util_percent": "x", "pids": [1, "2", None, -3, 4.5, 7]})
    assert track is not None
    assert math.isnan(track.power_w[0])
    assert math.isnan(track.memory_percent[0])
    assert track.pids == ((1, 7),)


def test_an_index_that_is_another_gpu_now_is_named_so():
    rows = Rows("a")
    rows.opened({"gpu": 0, "uuid": "GPU-1", "bus_id": "00000000:9A:00.0"})
    assert rows.sample(LINE).uuid == "GPU-1"
    rows.opened({"gpu": 0, "uuid": "GPU-2", "bus_id": None})
    assert rows.sample(LINE).uuid == "GPU-2"
    rows.opened({"gpu": 0, "uuid": None, "error": "GPU is lost"})
    assert rows.sample(LINE).uuid == "GPU-2", "a GPU that cannot be opened again has told who it is before"


def test_nobody_is_told_to_have_left_before_processes_were_listed():
    rows = Rows("a")
    assert rows.sample(LINE).pids == (None,)
    assert rows.sample({**LINE, "pids": [5]}).pids == ((5,),)
    assert rows.sample(LINE).pids == ((5,),)
    assert rows.sample({**LINE, "pids": []}).pids == ((),)


def test_a_meter_of_a_register_that_wraps_goes_on():
    meter = Meter(wraps=True)
    assert meter.read(0, 2**32 - 1024) == 0
    assert meter.read(5, 1024) == 2
    assert meter.read(10, 1024) == 2


def test_a_meter_that_fell_was_reset_and_adds_nothing():
    meter = Meter()
    meter.read(0, 10_240)
    assert meter.read(5, 1_024) == 0
    assert meter.read(10, 3_072) == 2
    wide = Meter(wraps=True)
    wide.read(0, 2**40)
    assert wide.read(5, 0) == 0, "a register that has shown more than 32 bits does not wrap at 32"


def test_a_meter_leaves_out_what_is_no_traffic():
    meter = Meter(floor=PCIE_FLOOR)
    meter.read(0, 0)
    assert meter.read(5, 5 * 200_000) == 0
    assert meter.read(10, 5 * 200_000 + 5 * 300_000_000) > 1_000_000


def test_a_meter_believes_nothing_across_a_gap():
    meter = Meter()
    meter.read(0, 1024)
    assert math.isnan(meter.read(5, None))
    assert meter.read(10, 9 * 1024) == 0
    assert meter.read(11 + MOST_SECONDS, 90 * 1024) == 0
    assert meter.read(11 + MOST_SECONDS, 95 * 1024) == 0, "the same moment twice"
    assert math.isnan(meter.read(500, math.nan))
    assert math.isnan(meter.run(501, -1.0))


def test_xids_that_follow_another_are_marked_and_old_causes_are_forgotten():
    xids = Xids("nvml-xid-events", "a")
    cause = xids.told(79, "00000000:9A:00.0", 100.0, "told by NVML")
    follows = xids.told(45, "00000000:9A:00.0", 101.0, "told by NVML")
    alone = xids.told(31, "00000000:9B:00.0", 1000.0, "told by NVML")
    assert cause is not None
    assert not cause.secondary
    assert follows is not None
    assert follows.secondary
    assert alone is not None
    assert not alone.secondary
    assert alone.bus_id == "0000:9b:00"


@pytest.mark.parametrize(("code", "bus"), [(0, "0000:9a:00"), (-1, "0000:9a:00"), (1 << 40, "0000:9a:00"), (79, "x")])
def test_what_can_be_no_xid_is_none(code, bus):
    assert Xids("s", None).told(code, bus, 1.0, "told") is None
