"""One look at every network port of /sys/class/infiniband and /sys/class/net.

Source: linux Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net-statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.sys_files import names, read_number, read_text

MAX_DEVICES = 256
"""Devices of one class: a host with SR-IOV has some hundred; what is beyond is left out and said."""
MAX_PORTS = 8
MAX_GIDS = 64
"""GIDs of a port that are looked at: the table has 256 places, the used ones come first."""

_DEVICE_FACTS = ("fw_ver", "board_id", "hca_type", "node_desc", "node_guid")
_PORT_FACTS = ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid")
_EMPTY_GIDS = ("0000:0000:0000:0000:0000:0000:0000:0000", "fe80:0000:0000:0000:0000:0000:0000:0000")
_UNINTERESTING = ("lo", "ifb", "dummy", "sit", "tunl", "ip6tnl", "gre", "erspan", "cali", "veth", "nodelocaldns")
"""Interfaces that carry nothing between hosts, or the same again: a node with pods has hundreds of veth."""


@dataclass
class Look:
    """`ports`: one row each, as `network-counters.jsonl` has them but for time and host. `facts`: lines `path: value`
    as captures of /sys/class/infiniband are written. `problems`: what was left out."""

    ports: list[dict[str, Any]] = field(default_factory=list)
    facts: str = ""
    problems: list[str] = field(default_factory=list)


def look(sys: Path, deadline: Deadline, *, with_facts: bool, keep: Callable[[Look], None]) -> Look:
    """Everything once, Ethernet first, in the order of names; stops at the deadline and says so.

    `keep` is called after each part: reading a counter of an RDMA device whose firmware hangs may block for a minute.
    """
    found = Look()
    net = sys / "class" / "net"
    interfaces = [name for name in names(net) if not name.startswith(_UNINTERESTING)]
    for interface in interfaces[:MAX_DEVICES]:
        if deadline.passed:
            found.problems.append(f"the time ended before the interface {interface}")
            break
        row = _ethernet(net / interface, interface)
        if row is not None:
            found.ports.append(row)
    keep(found)
    infiniband = sys / "class" / "infiniband"
    devices = names(infiniband)
    if len(devices) > MAX_DEVICES:
        found.problems.append(f"{len(devices) - MAX_DEVICES} RDMA devices beyond the first {MAX_DEVICES} were left out")
    for device in devices[:MAX_DEVICES]:
        if deadline.passed:
            found.problems.append(f"the time ended before the RDMA device {device}: its firmware answers slowly")
            break
        _rdma(infiniband / device, device, found, deadline, with_facts=with_facts)
        keep(found)
    return found


def _rdma(folder: Path, device: str, found: Look, deadline: Deadline, *, with_facts: bool) -> None:
    lines = [(name, read_text(folder / name, 256)) for name in _DEVICE_FACTS] if with_facts else []
    for port in [name for name in names(folder / "ports") if name.isdecimal()][:MAX_PORTS]:
        at = folder / "ports" / port
        facts = {name: read_text(at / name, 256) for name in _PORT_FACTS}
        counters: dict[str, int] = {}
        for kind in ("counters", "hw_counters"):
            for name in names(at / kind):
                if deadline.passed:
                    found.problems.append(f"the time ended within the counters of {device} port {port}")
                    break
                # `lifespan` is a setting, and a counter that the port does not have gives EINVAL or a sentence.
                value = read_number(at / kind / name) if name != "lifespan" else None
                if value is not None and value >= 0:
                    counters[name] = value
                    lines.append((f"ports/{port}/{kind}/{name}", str(value)))
        lines += [(f"ports/{port}/{name}", value) for name, value in facts.items()]
        if with_facts:
            lines += _gids(at, port, deadline)
        row = {"kind": "rdma", "device": device, "port": int(port)}
        row |= {name: facts[name] for name in ("state", "phys_state", "rate", "link_layer") if facts[name]}
        found.ports.append({**row, "counters": counters})
    if with_facts:
        found.facts += "".join(f"{device}/{path}: {' '.join(value.split())}\n" for path, value in lines if value)


def _gids(at: Path, port: str, deadline: Deadline) -> Iterator[tuple[str, str | None]]:
    """The used places of the GID table; an empty place gives EINVAL for its type."""
    for index in sorted((name for name in names(at / "gids") if name.isdecimal()), key=int)[:MAX_GIDS]:
        if deadline.passed:
            return
        gid = read_text(at / "gids" / index, 64)
        if gid is None or gid in _EMPTY_GIDS:
            continue
        yield f"ports/{port}/gids/{index}", gid
        yield f"ports/{port}/gid_attrs/types/{index}", read_text(at / "gid_attrs" / "types" / index, 64)


def _ethernet(folder: Path, interface: str) -> dict[str, Any] | None:
    statistics = folder / "statistics"
    counters = {name: value for name in names(statistics) if (value := read_number(statistics / name)) is not None}
    if not counters:
        return None  # `bonding_masters` and the like are no interfaces
    changes = read_number(folder / "carrier_changes")
    if changes is not None:
        counters["carrier_changes"] = changes
    row: dict[str, Any] = {"kind": "ethernet", "device": interface, "port": None}
    state, speed = read_text(folder / "operstate", 64), read_number(folder / "speed")
    row |= {"state": state} if state else {}
    # -1 where the link is down or the driver (virtio, veth) knows no speed.
    row |= {"speed_mbps": speed} if speed is not None and speed > 0 else {}
    for name in ("mtu", "carrier"):
        value = read_number(folder / name)  # `carrier` of an interface that is down gives EINVAL
        row |= {name: value} if value is not None else {}
    return {**row, "counters": counters}
