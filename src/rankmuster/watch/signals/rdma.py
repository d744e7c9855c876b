"""Byte counters of the node's RDMA ports, from /sys/class/infiniband.

Source: linux Documentation/ABI/stable/sysfs-class-infiniband; `hw_counters` of drivers that count bytes there only
(EFA, bnxt_re). On RoCE ports of mlx5 `port_*_data` is RDMA alone; traffic over sockets is not in it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.node.sys_files import names, read_number, read_text
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.pci import bus_id
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.gpu_meter import Meter
from rankmuster.watch.signals.gpu_rdma import PortBytes, RdmaLook
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said

READ_SECONDS = 2.0
"""For all counters: a millisecond each, a minute where the firmware of a device hangs."""

SEARCH_SECONDS = 60.0
"""Between two searches for ports: they come up and are unplugged, and the tree of PCI is large."""

MOST_DEVICES = 64
"""RDMA devices with a port that is up: a node has 8 to 16; more are virtual functions of other pods."""
MOST_PORTS = 4
MOST_PCI = 4096

WORD = 4.0
"""Bytes of one count of `port_xmit_data` and `port_rcv_data`."""

_SENT, _RECEIVED = "counters/port_xmit_data", "counters/port_rcv_data"
_OWN_SENT = ("hw_counters/tx_bytes", "hw_counters/rdma_write_bytes", "hw_counters/rdma_tx_bytes")
_OWN_RECEIVED = (
    "hw_counters/rx_bytes",
    "hw_counters/rdma_read_bytes",
    "hw_counters/rdma_write_recv_bytes",
    "hw_counters/rdma_rx_bytes",
)
_NVIDIA, _DISPLAY = "0x10de", "0x03"


@dataclass
class _Port:
    """`sent`, `received`: the files whose sum counts."""

    device: str
    port: int
    path: tuple[str, ...]
    sent: tuple[Path, ...]
    received: tuple[Path, ...]
    out: Meter
    into: Meter


@dataclass
class _Found:
    ports: dict[tuple[str, int], _Port] = field(default_factory=dict)
    devices: int = 0
    silent: set[str] = field(default_factory=set)
    gpu_paths: dict[str, tuple[str, ...]] = field(default_factory=dict)


class RdmaSignal:
    """Says a `RdmaLook` at each poll, for `gpu_rdma.with_rdma`; nothing at all on a node without RDMA devices.

    `sys`: the root of /sys. To be polled in the same moment as the GPUs, best just after them.
    """

    def __init__(
        self,
        sys: Path = Path("/sys"),
        *,
        period: float = 5.0,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sys = sys
        self._period = period
        self._clock = clock
        self._now = now
        self._found = _Found()
        self._searched: float | None = None
        self._reading: threading.Event | None = None
        self._since = 0.0
        self._declined = False

    @property
    def name(self) -> str:
        return "rdma"

    @property
    def plane(self) -> Plane:
        return Plane.HARDWARE

    @property
    def period(self) -> float:
        return self._period

    @property
    def blind_to(self) -> str:
        return "whose bytes a port moves (it counts for its node), and traffic over sockets"

    def poll(self, deadline: Deadline) -> Iterator[Said]:
        """One look at all ports. A device whose firmware hangs is read by one thread only, until that comes back."""
        now = self._clock()
        if self._reading is not None and not self._reading.is_set():
            told = f"a read of {self._sys}/class/infiniband has not returned for {now - self._since:.0f} s"
            yield Failed(now, Plane.HARDWARE, f"{told}: the firmware of a device hangs")
            return
        done = self._reading = threading.Event()
        self._since = now

        begun = threading.Event()

        def read() -> RdmaLook | None:
            begun.set()
            try:
                return self._look()
            finally:
                done.set()

        try:
            look = within(min(READ_SECONDS, deadline.remaining()), read, "rdma-counters")
        except Late as error:
            if not begun.is_set():
                self._reading = None
            told = f"the counters of {self._sys}/class/infiniband could not be read: {error}"
            yield Failed(self._clock(), Plane.HARDWARE, told)
            return
        if look is not None:
            yield Heard(self._clock(), self._now(), look)
        elif self._found.devices and not self._declined:
            self._declined = True
            devices = ", ".join(sorted(self._found.silent)[:4]) or "all ports are down"
            yield Declined(
                now, Plane.HARDWARE, f"no RDMA port of this node counts bytes where that can be read ({devices})"
            )

    def close(self) -> None:
        """Nothing is held open."""

    def _look(self) -> RdmaLook | None:
        at = self._clock()
        if self._searched is None or at - self._searched >= SEARCH_SECONDS:
            self._searched = at
            self._search()
        ports = tuple(self._read(port) for port in self._found.ports.values())
        return RdmaLook(self._now(), ports, dict(self._found.gpu_paths)) if ports else None

    def _read(self, port: _Port) -> PortBytes:
        sent, received = _sum(port.sent), _sum(port.received)
        at = self._clock()
        return PortBytes(port.device, port.port, port.path, port.out.read(at, sent), port.into.read(at, received))

    def _search(self) -> None:
        """Adds what has come up; a port stays when its link goes down, or its bytes would look like another's."""
        found = self._found
        devices = names(self._sys / "class" / "infiniband")
        found.devices = len(devices)
        found.silent.clear()
        for name in devices:
            folder = self._sys / "class" / "infiniband" / name
            for number in [port for port in names(folder / "ports") if port.isdecimal()][:MOST_PORTS]:
                key = name, int(number)
                if key not in found.ports and len(found.ports) < MOST_DEVICES:
                    port = self._port(folder, name, number)
                    if port is not None:
                        found.ports[key] = port
        for key in [key for key in found.ports if key[0] not in devices]:
            del found.ports[key]
        if found.ports and not found.gpu_paths:
            found.gpu_paths = self._gpus()

    def _port(self, folder: Path, device: str, number: str) -> _Port | None:
        at = folder / "ports" / number
        if "ACTIVE" not in (read_text(at / "state", 64) or ""):
            return None
        floor = DEFAULTS.port_bytes_per_s
        sent: tuple[Path, ...] = (at / _SENT,)
        received: tuple[Path, ...] = (at / _RECEIVED,)
        unit = WORD
        if _sum(sent) is None or _sum(received) is None:
            sent = tuple(at / name for name in _OWN_SENT if read_number(at / name) is not None)
            received = tuple(at / name for name in _OWN_RECEIVED if read_number(at / name) is not None)
            unit = 1.0
            if not sent or not received:
                self._found.silent.add(device)
                return None
        path = _path(folder / "device")
        return _Port(device, int(number), path, sent, received, Meter(unit, floor), Meter(unit, floor))

    def _gpus(self) -> dict[str, tuple[str, ...]]:
        """The PCI path of each NVIDIA GPU by its address."""
        found = {}
        for name in names(self._sys / "bus" / "pci" / "devices", MOST_PCI):
            folder = self._sys / "bus" / "pci" / "devices" / name
            if read_text(folder / "vendor", 16) != _NVIDIA:
                continue
            address = bus_id(name)
            if address is not None and (read_text(folder / "class", 16) or "").startswith(_DISPLAY):
                found[address] = _path(folder)
        return found


def _sum(files: tuple[Path, ...]) -> float | None:
    """None where any of them cannot be read: a sum over fewer would fall."""
    values = [read_number(file) for file in files]
    known = [value for value in values if value is not None and value >= 0]
    return float(sum(known)) if known and len(known) == len(values) else None


def _path(device: Path) -> tuple[str, ...]:
    """The steps from the root complex to a device; empty where it is no PCI device or its place cannot be told."""
    parts = os.path.realpath(device).split(os.sep)
    roots = [index for index, part in enumerate(parts) if part.startswith("pci") and ":" in part]
    return tuple(parts[roots[-1] :]) if roots else ()
