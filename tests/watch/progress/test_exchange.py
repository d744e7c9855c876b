"""Loading of weights moves bytes and is no work; an exchange between peers is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from build_looks import sample, view

from rankmuster.model.fault import Progress
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.exchange import exchanging
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.model import Event, ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS


def track(nvlink: float = 0.0, out: float = 0.0, taken: float = 0.0, network: float = float("nan")) -> GpuTrack:
    """A GPU with these rates, KiB per second, over four samples."""
    time = np.arange(4) * 5.0
    nan = np.full(4, np.nan)
    one = sample(0.0, 0, 50.0, 0.0)
    columns = dict.fromkeys(("sm_percent", "memory_percent", "power_w", "clock_mhz"), nan)
    return replace(
        one,
        time=time,
        pids=one.pids * 4,
        nvlink_tx_kib=time * nvlink,
        nvlink_rx_kib=time * nvlink,
        pcie_tx_kib=time * out,
        pcie_rx_kib=time * taken,
        rdma_tx_kib=time * network,
        rdma_rx_kib=time * network,
        **columns,
    )


LOADING = track(out=2e4, taken=5e5)


@pytest.mark.parametrize("moved", [track(nvlink=1e5), track(out=4e5, taken=5e5), track(network=1e4)])
def test_bytes_between_peers_are_an_exchange(moved: GpuTrack) -> None:
    assert exchanging([moved, moved])
    assert exchanging([moved, moved, LOADING])
    assert not exchanging([moved, LOADING])


def test_what_is_taken_in_alone_is_none() -> None:
    assert not exchanging([LOADING] * 4)
    assert not exchanging([])
    assert not exchanging([sample(0.0, 0, 50.0, 1e9)])  # one sample has no rate


def waiting(moved: GpuTrack, seconds: float) -> list[LookResult]:
    """Bytes that move for so long, and then ranks that wait for each other."""
    by_hardware = {"spoke": (Plane.HARDWARE,), "loaded": None, "worked": False, "started_at": 0.0}
    moving = replace(view(Progress.ADVANCING, **by_hardware), tracks={0: moved, 1: moved}, engine_expected=False)
    stopped = replace(view(Progress.STOPPED, **by_hardware), engine_expected=False)
    looks = int(seconds / DEFAULTS.period)
    return [replace(one, intervals=()) for one in [*[moving] * looks, *[stopped] * 4]]


@pytest.mark.parametrize("seconds", [30.0, 90.0, 240.0])
def test_however_long_weights_are_loaded_who_waits_after_it_is_starting(seconds: float) -> None:
    model = ProgressModel()
    judged = [model.step(5.0 * number, one) for number, one in enumerate(waiting(LOADING, seconds))]
    assert {one.state for one in judged} == {Progress.STARTING}


def test_work_between_peers_ends_a_start() -> None:
    model = ProgressModel()
    looks = waiting(track(nvlink=1e5), DEFAULTS.steady_seconds + 10)
    judged = [model.step(5.0 * number, one) for number, one in enumerate(looks)]
    assert [one.event for one in judged if one.event] == [Event.STOPPED]
