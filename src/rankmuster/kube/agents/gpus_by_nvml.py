"""The node's GPUs through NVML, asked while somebody wants to know, in the watch's own child process."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.kube.agents.gpu_row import Row
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.kernel import Xid
from rankmuster.watch.signals import dcgm_page as page
from rankmuster.watch.signals.nvml import NvmlSignal
from rankmuster.watch.signals.signal import Declined, Failed, Heard

PERIOD = 2.0
"""Between two rounds: a watch looks every five seconds, and needs a new sample at each."""

WANTED_SECONDS = 180.0
"""After the last question for which it goes on asking: a scrape comes each minute at the rarest."""

STALE_SECONDS = 15.0
"""Age from which a GPU's sample is not shown: a driver that hangs must not look like one that idles."""

FIRST_SECONDS = 4.0
"""For the first samples, when nobody has asked for a while."""


class _Gpu:
    def __init__(self) -> None:
        self.track: GpuTrack | None = None
        self.at = 0.0
        self.rates: dict[str, float] = {}
        self.energy = 0.0
        self.xid = 0


_COUNTERS = {
    page.NVLINK_TX: "nvlink_tx_kib",
    page.NVLINK_RX: "nvlink_rx_kib",
    page.PCIE_TX: "pcie_tx_kib",
    page.PCIE_RX: "pcie_rx_kib",
}
_GAUGES = {
    page.UTIL: "sm_percent",
    page.MEMORY: "memory_percent",
    page.POWER: "power_w",
    page.CLOCK: "clock_mhz",
}


class GpusByNvml:
    """`rows` may be called from any thread."""

    def __init__(self, clock: Clock, *, now: Callable[[], float] = time.time, period: float = PERIOD) -> None:
        self._clock = clock
        self._period = period
        self._made = partial(NvmlSignal, "node", period=period, clock=clock, now=now)
        self._signal = self._made()
        self._lock = threading.Lock()
        self._gpus: dict[int, _Gpu] = {}
        self._wanted_at = 0.0
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._round = threading.Event()
        self._why = "NVML has not answered yet"

    def rows(self) -> tuple[list[Row], str]:
        """The GPUs that have answered lately; why there is none, or why some are missing."""
        with self._lock:
            self._wanted_at = self._clock()
            if self._thread is None or not self._thread.is_alive():
                self._round.clear()
                self._thread = threading.Thread(target=self._ask, name="nvml", daemon=True)
                self._thread.start()
        self._round.wait(FIRST_SECONDS)
        now = self._clock()
        with self._lock:
            found = [
                _row(index, gpu)
                for index, gpu in sorted(self._gpus.items())
                if gpu.track is not None and now - gpu.at < STALE_SECONDS
            ]
            return found, self._why

    def close(self) -> None:
        """Ends what asks NVML."""
        self._end.set()
        self._signal.close()

    def _ask(self) -> None:
        while not self._end.is_set() and self._clock() - self._wanted_at < WANTED_SECONDS:
            with contextlib.suppress(Exception):  # asked again in two seconds; what is old is not shown
                self._poll()
            if self._gpus:
                self._round.set()
            self._end.wait(self._period)
        # nobody wants to know: the driver is not held open for it
        with self._lock:
            self._signal.close()
            self._signal = self._made()
            self._gpus.clear()
            self._thread = None

    def _poll(self) -> None:
        said = self._signal.poll(Deadline.after(self._period + 3.0, self._clock))
        with self._lock:
            for one in said:
                if isinstance(one, (Failed, Declined)):
                    self._why = one.reason
                    self._round.set()
                elif isinstance(one, Heard) and isinstance(one.observation, GpuTrack):
                    self._take(one.observation)
                elif isinstance(one, Heard) and isinstance(one.observation, Xid):
                    for gpu in self._gpus.values():
                        if gpu.track is not None and gpu.track.bus_id == one.observation.bus_id:
                            gpu.xid = one.observation.code

    def _take(self, track: GpuTrack) -> None:
        gpu = self._gpus.setdefault(track.gpu, _Gpu())
        before, gpu.track, gpu.at = gpu.track, track, self._clock()
        if before is None or before.uuid != track.uuid:
            gpu.rates = {}
            return
        passed = float(track.time[-1] - before.time[-1])
        if passed <= 0:
            return
        power = float(track.power_w[-1])
        gpu.energy += 1000.0 * passed * (power if math.isfinite(power) else 1.0)
        for series, column in _COUNTERS.items():
            grown = float(getattr(track, column)[-1] - getattr(before, column)[-1])
            if math.isfinite(grown) and grown >= 0:
                gpu.rates[series] = 1024.0 * grown / passed
            else:
                gpu.rates.pop(series, None)


def _row(index: int, gpu: _Gpu) -> Row:
    assert gpu.track is not None
    values = {
        series: value
        for series, column in _GAUGES.items()
        if math.isfinite(value := float(getattr(gpu.track, column)[-1]))
    }
    values |= gpu.rates
    values[page.ENERGY] = gpu.energy
    values[page.XID] = float(gpu.xid)
    return Row(index, gpu.track.uuid, gpu.track.bus_id, values, gpu.track.pids[-1])
