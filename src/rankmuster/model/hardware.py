"""The hardware plane: samples per GPU over time, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COLUMNS = (
    "sm_percent",
    "memory_percent",
    "power_w",
    "clock_mhz",
    "nvlink_tx_kib",
    "nvlink_rx_kib",
    "pcie_tx_kib",
    "pcie_rx_kib",
    "rdma_tx_kib",
    "rdma_rx_kib",
)
"""The measured columns of a track, in its own order: four gauges, then counters."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuTrack:
    """The samples of one GPU, every array of shape (samples,), ordered by time; NaN where a sample lacks the value.

    Units: seconds since the epoch, percent, watts, MHz, KiB since the driver started.
    `pids`: the compute processes on the GPU at each sample, in the host's pid namespace; None where not said.
    """

    source: str
    host: str | None
    gpu: int
    uuid: str | None
    bus_id: str | None
    time: Floats
    sm_percent: Floats
    memory_percent: Floats
    power_w: Floats
    clock_mhz: Floats
    nvlink_tx_kib: Floats
    nvlink_rx_kib: Floats
    pcie_tx_kib: Floats
    pcie_rx_kib: Floats
    rdma_tx_kib: Floats
    rdma_rx_kib: Floats
    pids: tuple[tuple[int, ...] | None, ...]
