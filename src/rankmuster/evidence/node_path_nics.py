"""NICs from captured text: RDMA tools, the legend of `topo -m`, and /sys/class/net, joined by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankmuster.evidence.nic_order import Rule, natural, ordered
from rankmuster.evidence.node_path_hosts import Piece
from rankmuster.model.captured_path import CapturedInterfaces, RdmaDevice
from rankmuster.model.node_path import NicPath, NicPort, PciNode
from rankmuster.model.topology import RdmaPort, TopologyMatrix
from rankmuster.model.unknown import Unknown


def captured_nics(own: Sequence[Piece], tree: Mapping[str, PciNode], rule: Rule) -> tuple[NicPath, ...] | Unknown:
    """In NCCL's order where the addresses are known; else as the tools list them, which is that of the device index.

    Unknown where no text tells which RDMA devices there are: an interface alone does not say that there are none.
    """
    matrices = [piece for piece in own if isinstance(piece, TopologyMatrix)]
    ports: dict[str, list[RdmaPort]] = {}
    devices: dict[str, RdmaDevice] = {}
    for piece in own:
        if isinstance(piece, RdmaPort):
            ports.setdefault(piece.device, []).append(piece)
        elif isinstance(piece, RdmaDevice):
            devices[piece.name] = _merged(devices.get(piece.name), piece)
    legend = [name for matrix in matrices for name in nics_of(matrix).values()]
    names = list(dict.fromkeys([*legend, *devices, *ports]))
    whole = [matrix for matrix in matrices if matrix.kind in ("m", "mp") and matrix.rows]
    if not names and not whole:
        return Unknown("no text tells which RDMA devices there are (nvidia-smi topo -m, ibv_devinfo, ibstat)")
    rdma = [_nic(name, ports.get(name, []), devices.get(name), tree) for name in names]
    if not legend:
        rdma.sort(key=lambda nic: natural(nic.name))
    if rule.by_address and all(isinstance(nic.address, str) for nic in rdma):
        rdma = list(ordered(rdma, rule))
    carried = {nic.netdev for nic in rdma}
    interfaces = [nic for piece in own if isinstance(piece, CapturedInterfaces) for nic in piece.nics]
    return (*rdma, *(_placed(nic, tree) for nic in interfaces if nic.name not in carried))


def _placed(nic: NicPath, tree: Mapping[str, PciNode]) -> NicPath:
    """What the tree tells of the device that an interface hangs on."""
    node = tree.get(nic.address) if isinstance(nic.address, str) else None
    if node is None:
        return nic
    model = f"{node.vendor}:{node.device}" if isinstance(nic.model, Unknown) else nic.model
    return replace(nic, model=model, numa=node.numa if isinstance(nic.numa, Unknown) else nic.numa)


def nics_of(matrix: TopologyMatrix) -> dict[str, str]:
    """NIC0 -> mlx5_0. Older tools label rows with the device's own name, others print no legend."""
    plain = [label for label in dict.fromkeys((*matrix.columns, *matrix.rows)) if not label.startswith(("GPU", "NIC"))]
    numbered = [label for label in dict.fromkeys((*matrix.columns, *matrix.rows)) if label.startswith("NIC")]
    found = {label: matrix.nics.get(label, label) for label in numbered}
    return found | {f"NIC{len(numbered) + at}": name for at, name in enumerate(plain)}


def _merged(one: RdmaDevice | None, other: RdmaDevice) -> RdmaDevice:
    if one is None:
        return other
    return RdmaDevice(
        *(one.source, one.host, one.name, one.model or other.model, one.guid or other.guid),
        one.address or other.address,
        one.netdev or other.netdev,
    )


def _nic(name: str, ports: Sequence[RdmaPort], device: RdmaDevice | None, tree: Mapping[str, PciNode]) -> NicPath:
    why = Unknown(f"no text tells it of {name}")
    place = device.address if device is not None else None
    node = tree.get(place) if place else None
    firmware = next((port.firmware for port in ports if port.firmware), None)
    by_number: dict[int, RdmaPort] = {}
    for port in ports:
        by_number.setdefault(port.port, port)
    return NicPath(
        name=name,
        rdma=True,
        address=place or Unknown(f"no text tells where {name} sits (ls -l /sys/class/infiniband, ibdev2netdev -v)"),
        model=(device.model if device is not None else None) or why,
        firmware=firmware or why,
        guid=(device.guid if device is not None else None) or why,
        numa=node.numa if node is not None else why,
        netdev=device.netdev if device is not None else None,
        ports=tuple(_port(port) for _, port in sorted(by_number.items())),
    )


def _port(port: RdmaPort) -> NicPort:
    why = Unknown(f"{port.source} does not say it of {port.device}, port {port.port}")
    return NicPort(
        port=port.port,
        state=port.state or why,
        link_layer=port.link_layer or why,
        rate_gbps=port.rate_gbps if port.rate_gbps is not None else why,
        mtu=port.mtu if port.mtu is not None else why,
        gids=port.gids or why,
    )
