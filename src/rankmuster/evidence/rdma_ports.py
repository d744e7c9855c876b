"""RDMA ports while their text is being read, and the words that the tools write in different ways made one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rankmuster.model.topology import RdmaPort

MAX_PORTS = 4096
"""Ports of one text; a host has at most some dozens, a collected file of a cluster some hundreds."""
MAX_GIDS = 1024
"""GIDs of one port; mlx5 tables have 256 places."""

_STATES = {
    "down": "PORT_DOWN",
    "init": "PORT_INIT",
    "initializing": "PORT_INIT",
    "armed": "PORT_ARMED",
    "active": "PORT_ACTIVE",
    "active_defer": "PORT_ACTIVE_DEFER",
    "activedefer": "PORT_ACTIVE_DEFER",
}
_PHYSICAL = {
    "linkup": "LinkUp",
    "polling": "Polling",
    "disabled": "Disabled",
    "sleep": "Sleep",
    "training": "Training",
    "portconfigurationtraining": "Training",
    "linkerrorrecovery": "LinkErrorRecovery",
    "phytest": "PhyTest",
}
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(?: ?Gb/sec)?")
_GID_TYPES = {
    "v1": "IB/RoCE v1",
    "roce v1": "IB/RoCE v1",
    "ib/roce v1": "IB/RoCE v1",
    "v2": "RoCE v2",
    "roce v2": "RoCE v2",
}


@dataclass(slots=True)
class Port:
    """A port in the making; None where nothing was said yet."""

    device: str
    port: int
    state: str | None = None
    physical_state: str | None = None
    link_layer: str | None = None
    rate_gbps: float | None = None
    lane_gbps: float | None = None
    lanes: int | None = None
    mtu: int | None = None
    max_mtu: int | None = None
    gids: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    def gid(self, index: int, value: str | None, kind: str | None) -> None:
        """Value and type come together or from two files of /sys, in either order."""
        if index not in self.gids and len(self.gids) >= MAX_GIDS:
            return
        old_value, old_kind = self.gids.get(index, ("", None))
        self.gids[index] = (value or old_value, kind or old_kind)

    def done(self, source: str, host: str | None, firmware: str | None) -> RdmaPort:
        """The frozen value; the rate is lanes times lane speed where the tool gives only these."""
        rate = self.rate_gbps
        if rate is None and self.lane_gbps is not None and self.lanes is not None:
            rate = self.lane_gbps * self.lanes
        return RdmaPort(
            source,
            host,
            self.device,
            self.port,
            self.state,
            self.physical_state,
            self.link_layer,
            rate,
            self.mtu,
            self.max_mtu,
            firmware,
            tuple((i, value, kind) for i, (value, kind) in sorted(self.gids.items()) if value),
            self.counters,
        )


class PortTable:
    """All ports of one text in the order in which they came; several tools may speak of the same port."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], Port] = {}
        self._firmware: dict[str, str] = {}
        self.devices: set[str] = set()

    def at(self, device: str, port: int) -> Port:
        """The port, made on first mention; beyond `MAX_PORTS` a throw-away one."""
        key = (device, port)
        found = self._ports.get(key)
        if found is None:
            found = Port(device, port)
            if len(self._ports) < MAX_PORTS:
                self._ports[key] = found
                self.devices.add(device)
        return found

    def firmware(self, device: str, version: str) -> None:
        """Firmware is the device's, not the port's."""
        if len(self._firmware) < MAX_PORTS:
            self._firmware[device] = version

    def done(self, source: str, host: str | None) -> tuple[RdmaPort, ...]:
        """Every port as a frozen value."""
        return tuple(p.done(source, host, self._firmware.get(p.device)) for p in self._ports.values())


def state(said: str) -> str:
    """`PORT_ACTIVE (4)`, `4: ACTIVE`, `Active` -> PORT_ACTIVE; a word that nobody knows is kept."""
    word = _word(said)
    return _STATES.get(word.lower().removeprefix("port_"), word)


def physical_state(said: str) -> str:
    """`LINK_UP (5)`, `5: LinkUp` -> LinkUp."""
    word = _word(said)
    return _PHYSICAL.get(word.lower().replace("_", "").replace(" ", ""), word)


def rate(said: str) -> float | None:
    """Gb/s of `400 Gb/sec (4X NDR)` and of ibstat's bare `400`."""
    match = _RATE.match(said.strip())
    return float(match.group(1)) if match else None


def gid_type(said: str) -> str | None:
    """The kernel's word for a GID's type; None for an empty one."""
    word = said.strip()
    return _GID_TYPES.get(word.lower(), word) or None


def _word(said: str) -> str:
    word = re.sub(r"^\s*\d{1,3}: *", "", said[:256])
    return re.sub(r" *\(\d{1,4}\)\s*$", "", word).strip()
