"""A DCGM page's rates -> the counters of `GpuTrack`, and nothing where a rate cannot be believed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.watch.signals import dcgm_page as page
from rankmuster.watch.signals.gpu_meter import Meter
from rankmuster.watch.signals.gpu_rows import NO_VALUE, PCIE_FLOOR

MEBIBYTE = float(1 << 20)

MOST_NVLINK = 8e6
"""MiB per second that no GPU's links reach: NVLink 5 has 1.8e6 both ways. A larger value is a counter, of KiB, as
NVML's own: some exporters hand that on."""


@dataclass
class Rates:
    """Of one GPU. `believed`: zero is zero, also where nothing has moved yet (our node agent's own counting).

    A link that has never carried a byte since the watch began says nothing: some exporters say 0 for ever (DCGM issue
    149), and a GPU whose links are not used cannot be seen waiting at them.
    """

    believed: bool = False
    _sent: Meter = field(default_factory=Meter)
    _received: Meter = field(default_factory=Meter)
    _both: Meter = field(default_factory=lambda: Meter(unit=MEBIBYTE))
    _counted: Meter = field(default_factory=lambda: Meter(unit=1024.0))
    _out: Meter = field(default_factory=lambda: Meter(floor=PCIE_FLOOR))
    _in: Meter = field(default_factory=lambda: Meter(floor=PCIE_FLOOR))
    _moved: set[str] = field(default_factory=set)
    counts: bool = False

    def columns(self, at: float, values: Mapping[str, float]) -> dict[str, float]:
        """The columns of one sample at `at` (unix seconds), those of links that can be believed."""
        self._moved.update(name for name in LINKS if values.get(name, 0.0) > 0 or (self.believed and name in values))
        self.counts = self.counts or values.get(page.NVLINK, 0.0) > MOST_NVLINK
        util, engine = values.get(page.UTIL), values.get(page.ENGINE)
        found = {
            "sm_percent": util if util is not None else 100 * engine if engine is not None else NO_VALUE,
            "memory_percent": values.get(page.MEMORY, NO_VALUE),
            "power_w": values.get(page.POWER, NO_VALUE),
            "clock_mhz": values.get(page.CLOCK, NO_VALUE),
        }
        prof = {
            "nvlink_tx_kib": self._sent.run(at, values.get(page.NVLINK_TX)),
            "nvlink_rx_kib": self._received.run(at, values.get(page.NVLINK_RX)),
        }
        total = values.get(page.NVLINK)
        both = self._counted.read(at, total) if self.counts else self._both.run(at, total)
        pcie = {
            "pcie_tx_kib": self._out.run(at, values.get(page.PCIE_TX)),
            "pcie_rx_kib": self._in.run(at, values.get(page.PCIE_RX)),
        }
        if self._moved & {page.NVLINK_TX, page.NVLINK_RX}:
            return found | prof
        if page.NVLINK in self._moved:
            return found | {"nvlink_tx_kib": both}
        return found | pcie if self._moved else found

    @property
    def sees_links(self) -> bool:
        """Whether any link has been seen to carry bytes."""
        return bool(self._moved)


LINKS = (page.NVLINK_TX, page.NVLINK_RX, page.NVLINK, page.PCIE_TX, page.PCIE_RX)
