"""The lean child's samples -> pieces of `GpuTrack`, one sample each, with all processes of the GPU as NVML lists them.

The child lists processes only now and then: between two lists the last one stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankmuster.evidence.gpu_samples import number
from rankmuster.evidence.pci import bus_id
from rankmuster.model.hardware import COLUMNS, Floats, GpuTrack
from rankmuster.watch.signals.gpu_meter import Meter

SOURCE = "gpu-counters"
"""Of the tracks of NVML, as a reference to their evidence names them; a DCGM page's have another."""

OF_POD = "node-agent"
"""Of the tracks of our node agent's page for one pod: it shows that pod's GPUs alone, and processes by the pod's own
numbers."""

PCIE_FLOOR = float(1 << 20)
"""Bytes per second over PCIe that are none of the instance's: an idle L40S that DCGM looked at showed 0.2 MB/s
(dcgm-exporter page, driver 595.58), and collectives over PCIe move hundreds of MB/s."""

MOST_GPUS = 256
MOST_PIDS = 4096
NO_VALUE = math.nan


@dataclass
class _Known:
    uuid: str | None = None
    bus: str | None = None
    pids: tuple[int, ...] | None = None
    clock: float = NO_VALUE
    sent: Meter = field(default_factory=lambda: Meter(floor=PCIE_FLOOR, wraps=True))
    received: Meter = field(default_factory=lambda: Meter(floor=PCIE_FLOOR, wraps=True))


class Rows:
    """Of one child and host."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._gpus: dict[int, _Known] = {}

    @property
    def listed(self) -> tuple[tuple[int, ...], ...]:
        """The processes of each GPU as NVML numbers them, of those that it listed."""
        return tuple(known.pids for known in list(self._gpus.values()) if known.pids is not None)

    def opened(self, line: Mapping[str, Any]) -> None:
        """A line that says which GPU has an index."""
        known = self._of(line.get("gpu"))
        uuid, bus = line.get("uuid"), line.get("bus_id")
        if known is not None and isinstance(uuid, str) and uuid:
            known.uuid = uuid
            known.bus = bus_id(str(bus)) if bus else None

    def sample(self, line: Mapping[str, Any]) -> GpuTrack | None:
        """The sample of a line; None where it has no time or no value that tells anything."""
        gpu, time = line.get("gpu"), number(line.get("time"))
        known = self._of(gpu)
        if known is None or math.isnan(time):
            return None
        pids = line.get("pids")
        if isinstance(pids, list):
            known.pids = tuple(pid for pid in pids[:MOST_PIDS] if isinstance(pid, int) and pid > 0)
        clock = number(line.get("sm_clock_mhz"))
        known.clock = known.clock if math.isnan(clock) else clock
        sm, sent, received = (number(line.get(key)) for key in ("sm_util_percent", "nvlink_tx_kib", "nvlink_rx_kib"))
        if math.isnan(sm) and math.isnan(sent):
            return None
        assert isinstance(gpu, int)
        return one_sample(
            host=self._host,
            gpu=gpu,
            uuid=known.uuid,
            bus=known.bus,
            time=time,
            pids=known.pids,
            columns={
                "sm_percent": sm,
                "memory_percent": number(line.get("memory_util_percent")),
                "power_w": number(line.get("power_w")),
                "clock_mhz": known.clock,
                "nvlink_tx_kib": sent,
                "nvlink_rx_kib": received,
                "pcie_tx_kib": known.sent.read(time, _none(line.get("pcie_tx_wrapping_counter"))),
                "pcie_rx_kib": known.received.read(time, _none(line.get("pcie_rx_wrapping_counter"))),
            },
        )

    def _of(self, gpu: object) -> _Known | None:
        if not isinstance(gpu, int) or isinstance(gpu, bool) or not 0 <= gpu < MOST_GPUS:
            return None
        return self._gpus.setdefault(gpu, _Known())


def one_sample(
    *,
    host: str | None,
    gpu: int,
    uuid: str | None,
    bus: str | None,
    time: float,
    pids: tuple[int, ...] | None,
    columns: Mapping[str, float],
    source: str = SOURCE,
) -> GpuTrack:
    """A track of one sample; columns that are not given are NaN."""
    return GpuTrack(
        source=source,
        host=host,
        gpu=gpu,
        uuid=uuid,
        bus_id=bus,
        time=_column(time),
        pids=(pids,),
        **{name: _column(columns.get(name, NO_VALUE)) for name in COLUMNS},
    )


def _column(value: float) -> Floats:
    return np.array([value], dtype=np.float64)


def _none(value: object) -> float | None:
    known = number(value)
    return None if math.isnan(known) else known
