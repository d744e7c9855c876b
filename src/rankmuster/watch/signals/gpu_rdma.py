"""Bytes of RDMA ports beside the GPUs that they are nearest to. Pure.

A port counts for its node, not for a process or a GPU. NCCL sends a GPU's traffic through the port that is nearest on
PCI, so that this is where it is looked for. Where the paths do not tell (virtual machines show a flat tree), the sum of
all ports stands beside every GPU, if one instance alone is watched on the node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankmuster.model.hardware import Floats, GpuTrack

HOLD_SECONDS = 1.5
"""How long after the last look its counters stand for now. Longer, and what moved since would be missing from one
interval and show in the next: a stop would be seen a period late."""

LEAST_SHARED = 2
"""Steps of two PCI paths that must be the same: the root complex, which every device of a socket shares, and a bridge
below it."""


@dataclass(frozen=True, slots=True)
class PortBytes:
    """One port at one look. KiB since the first look, without the network's own upkeep; NaN where it does not say.

    `path`: of its device, from the root complex down ("pci0000:15", "0000:15:01.0", ...), empty where unknown.
    """

    device: str
    port: int
    path: tuple[str, ...]
    tx_kib: float
    rx_kib: float


@dataclass(frozen=True, slots=True)
class RdmaLook:
    """All ports that are up, once. `time`: unix seconds. `gpu_paths`: PCI path of each GPU by its address (dddd:bb:dd).

    It is no observation for `Window.feed`: `with_rdma` puts what it says into the tracks.
    """

    time: float
    ports: tuple[PortBytes, ...]
    gpu_paths: Mapping[str, tuple[str, ...]]


def nearest(path: Sequence[str], ports: Sequence[PortBytes]) -> tuple[PortBytes, ...]:
    """The ports that share most steps with a PCI path; none where they share no bridge."""
    shared = [(_shared(path, port.path), port) for port in ports]
    most = max((steps for steps, _ in shared), default=0)
    return tuple(port for steps, port in shared if steps == most) if most >= LEAST_SHARED else ()


def with_rdma(track: GpuTrack, looks: Sequence[RdmaLook], *, sole: bool) -> GpuTrack:
    """The track with the bytes of its ports, between the looks (in order of time) by interpolation.

    Samples before the first look or long after the last one have NaN, as all have where nothing tells whose the ports
    are. `sole`: one instance alone is watched on this node.
    """
    if not looks or not len(track.time):
        return track
    newest = looks[-1]
    path = newest.gpu_paths.get(track.bus_id or "", ())
    near = nearest(path, newest.ports) if path else ()
    if not near and sole:
        near = newest.ports
    if not near:
        return track
    wanted = frozenset((port.device, port.port) for port in near)
    times = np.array([look.time for look in looks])
    sent, received = (
        np.array([_sum(look, wanted, sent=sent) for look in looks], dtype=np.float64) for sent in (True, False)
    )
    return replace(
        track,
        rdma_tx_kib=_at(track.time, times, sent),
        rdma_rx_kib=_at(track.time, times, received),
    )


def _sum(look: RdmaLook, wanted: frozenset[tuple[str, int]], *, sent: bool) -> float:
    """NaN where a port is missing: a sum over fewer ports would fall."""
    found = [port for port in look.ports if (port.device, port.port) in wanted]
    if len(found) != len(wanted):
        return math.nan
    return sum(port.tx_kib if sent else port.rx_kib for port in found)


def _at(wanted: Floats, times: Floats, values: Floats) -> Floats:
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(wanted), math.nan)
    times, values = times[known], values[known]
    found = np.interp(wanted, times, values)
    outside = (wanted < times[0]) | (wanted > times[-1] + HOLD_SECONDS)
    return np.where(outside, math.nan, found)


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    steps = 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        steps += 1
    return steps
