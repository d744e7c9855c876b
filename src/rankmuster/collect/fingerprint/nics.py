"""RDMA devices and Ethernet interfaces of /sys as NCCL may use them: where they sit, what they are, what they do."""

from __future__ import annotations

import os
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint.pci_tree import address_in
from rankmuster.collect.fingerprint.rdma_index import by_index
from rankmuster.collect.node.sys_files import names, read_number, read_text
from rankmuster.evidence import rdma_ports
from rankmuster.model.node_path import NicPath, NicPort
from rankmuster.model.unknown import Unknown

MAX_DEVICES = 256
MAX_PORTS = 8
MAX_GIDS = 256
"""Places of mlx5's table; the used ones come first, and an empty place costs one read."""
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"

BETWEEN_PODS = (
    *("lo", "docker", "br-", "virbr", "veth", "cni", "cali", "flannel", "cilium", "lxc", "kube", "nodelocaldns"),
    *("ifb", "dummy", "sit", "tunl", "ip6tnl", "gre", "erspan", "tun", "tap", "vxlan", "geneve", "wg"),
)
"""Interfaces that carry nothing between hosts, or the same again, and come and go with pods."""


def read_nics(sys: Path, deadline: Deadline) -> tuple[NicPath, ...] | Unknown:
    """RDMA devices in the order of their index, then interfaces without one by theirs. Unknown where /sys hides them or
    a device has not answered: then it is not known which there are."""
    if not os.path.isdir(sys / "class"):
        return Unknown(f"{sys / 'class'} is not there: /sys is not mounted, or masked by the container's runtime")
    found: list[NicPath] = []
    carried: set[str] = set()
    for name in by_index(sys)[:MAX_DEVICES]:
        if deadline.passed:
            return Unknown(f"the time ended before the RDMA device {name}: a device before it answers slowly")
        folder = sys / "class/infiniband" / name
        carried.update(names(folder / "device/net"))
        found.append(_rdma(folder, name, deadline))
    net = sys / "class/net"
    if not os.path.isdir(net):
        return Unknown(f"{net} is not there: it is not known which network interfaces there are")
    interfaces = [name for name in names(net) if not name.startswith(BETWEEN_PODS) and os.path.isdir(net / name)]
    carried |= {name for name in interfaces if os.path.isdir(net / name / "device/infiniband")}
    for name in interfaces:
        bonded = set((read_text(net / name / "bonding/slaves", 1024) or "").split())
        if bonded & carried:
            carried |= bonded | {name}
        elif bonded:
            carried |= bonded  # the bond itself stands for its parts
    left = [name for name in interfaces if name not in carried]
    left.sort(key=lambda name: (read_number(net / name / "ifindex") or 0, name))
    for name in left[:MAX_DEVICES]:
        if deadline.passed:
            return Unknown(f"the time ended before the interface {name}")
        found.append(_ethernet(net / name, name))
    return tuple(found)


def _rdma(folder: Path, name: str, deadline: Deadline) -> NicPath:
    ports = [int(port) for port in names(folder / "ports") if port.isdecimal()]
    return NicPath(
        name=name,
        rdma=True,
        address=_address(folder / "device"),
        model=_said(folder, "hca_type") or _made_by(folder / "device") or Unknown(f"{folder} says no model"),
        firmware=_said(folder, "fw_ver") or Unknown(f"{folder}/fw_ver is not there"),
        guid=_said(folder, "node_guid") or Unknown(f"{folder}/node_guid is not there"),
        numa=_numa(folder / "device"),
        netdev=next(iter(names(folder / "device/net")), None),
        ports=tuple(_port(folder, port, deadline) for port in sorted(ports)[:MAX_PORTS]),
    )


def _port(device: Path, port: int, deadline: Deadline) -> NicPort:
    at = device / "ports" / str(port)
    state, rate = read_text(at / "state", 64), read_text(at / "rate", 64)
    speed = rdma_ports.rate(rate) if rate else None
    interface = next(iter(names(device / "device/net")), None)
    mtu = read_number(device / "device/net" / interface / "mtu") if interface else None
    layer = read_text(at / "link_layer", 32)
    return NicPort(
        port=port,
        state=rdma_ports.state(state) if state else Unknown(f"{at}/state cannot be read"),
        link_layer=layer or Unknown(f"{at}/link_layer cannot be read"),
        rate_gbps=speed if speed is not None else Unknown(f"{at}/rate says {rate!r}"),
        mtu=mtu if mtu is not None and layer == "Ethernet" else Unknown("not in /sys; ibv_devinfo tells it"),
        gids=_gids(at, deadline),
    )


def _gids(at: Path, deadline: Deadline) -> tuple[tuple[int, str, str | None], ...] | Unknown:
    """The used places with their type; reading the type of an empty one gives EINVAL."""
    found: list[tuple[int, str, str | None]] = []
    for index in sorted((name for name in names(at / "gids") if name.isdecimal()), key=int)[:MAX_GIDS]:
        if deadline.passed:
            return Unknown(f"the time ended within {at}/gids")
        gid = read_text(at / "gids" / index, 64)
        if gid and gid != EMPTY_GID:
            kind = read_text(at / "gid_attrs/types" / index, 32)
            found.append((int(index), gid, rdma_ports.gid_type(kind) if kind else None))
    return tuple(found)


def _ethernet(folder: Path, name: str) -> NicPath:
    state, speed, mtu = (
        read_text(folder / "operstate", 32),
        read_number(folder / "speed"),
        read_number(folder / "mtu"),
    )
    rate: float | Unknown
    if speed is not None and speed > 0:
        rate = speed / 1000
    else:
        rate = Unknown(f"{folder}/speed says {speed}: the link is down, or its driver (virtio, veth) knows none")
    device = folder / "device"
    port = NicPort(
        port=1,
        state=state or Unknown(f"{folder}/operstate cannot be read"),
        link_layer="Ethernet",
        rate_gbps=rate,
        mtu=mtu if mtu is not None else Unknown(f"{folder}/mtu cannot be read"),
        gids=(),
    )
    physical = os.path.exists(device)
    return NicPath(
        name=name,
        rdma=False,
        address=_address(device) if physical else None,
        model=(_made_by(device) if physical else "virtual") or Unknown(f"{device} says no vendor and device"),
        firmware=Unknown("not in /sys; ethtool -i tells it"),
        guid=Unknown("an Ethernet interface has none"),
        numa=_numa(device) if physical else -1,
        netdev=name,
        ports=(port,),
    )


def _address(device: Path) -> str | Unknown | None:
    if not os.path.exists(device):
        return Unknown(f"{device} leads nowhere")
    return address_in(os.path.realpath(device))


def _made_by(device: Path) -> str | None:
    """`0x1af4:0x1041`, of the PCI device that it is or hangs on."""
    real = os.path.realpath(device)
    address = address_in(real)
    if address is None:
        return None
    folder = Path(real[: real.rindex(address) + len(address)])
    vendor, model = read_text(folder / "vendor", 16), read_text(folder / "device", 16)
    return f"{vendor}:{model}" if vendor and model else None


def _numa(device: Path) -> int | Unknown:
    for folder in (device, Path(os.path.realpath(device)).parent):
        value = read_number(folder / "numa_node")
        if value is not None:
            return value
    return Unknown(f"{device}/numa_node is not there")


def _said(folder: Path, name: str) -> str | None:
    said = read_text(folder / name, 128)
    return said or None
