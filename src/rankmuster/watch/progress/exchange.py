"""Whether GPUs exchange bytes with each other, or only take some in: weights that are loaded move bytes as well."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.model.hardware import Floats, GpuTrack

BOTH_WAYS = 0.25
"""Of the bytes that come over PCIe, how many must go out as well for it to be an exchange between peers. A load from
host memory sends requests, a tenth of what they ask for and less (a header for 256 to 512 bytes); an all-reduce over
PCIe sends as much as it receives."""

INTERVALS = 3
"""Newest intervals between samples that are looked at."""


def exchanging(tracks: Iterable[GpuTrack], least_kib_per_s: float = DEFAULTS.moving_kib_per_s) -> bool:
    """Whether more than half of the GPUs moved bytes over NVLink or RDMA lately, or over PCIe both ways.

    Blind to a stage of a pipeline that only sends over PCIe.
    """
    found = [_exchanges(track, least_kib_per_s) for track in tracks]
    return sum(found) * 2 > len(found)


def _exchanges(track: GpuTrack, least: float) -> bool:
    links = max(_rate(track, one) for one in (track.nvlink_tx_kib, track.nvlink_rx_kib))
    network = max(_rate(track, one) for one in (track.rdma_tx_kib, track.rdma_rx_kib))
    out, taken = _rate(track, track.pcie_tx_kib), _rate(track, track.pcie_rx_kib)
    return links >= least or network >= least or (out >= least and out >= BOTH_WAYS * taken)


def _rate(track: GpuTrack, counter: Floats) -> float:
    """KiB per second over the newest intervals; 0 where the counter is not known, or was reset in them."""
    if len(counter) < 2:
        return 0.0
    first = max(len(counter) - 1 - INTERVALS, 0)
    moved, seconds = float(counter[-1] - counter[first]), float(track.time[-1] - track.time[first])
    return moved / seconds if np.isfinite(moved) and moved > 0 and seconds > 0 else 0.0
