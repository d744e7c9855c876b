"""A node as a graph of what its parts are and can do, from NVML and /sys: no bus number, name, UUID or serial in it.

machine - NUMA nodes - PCIe root complexes - bridges - GPUs and NICs, with NVLinks across. Bridges that lie above no GPU
and no NIC are left out: NCCL's paths never cross them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.baseline.fingerprint.canonical import Graph
from rankmuster.baseline.fingerprint.nics import carrying, model_of, ports_of
from rankmuster.baseline.fingerprint.nvlinks import fabric_of
from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.node_path import GpuPath, Link, NicPath, NodePath, PciNode
from rankmuster.model.unknown import Unknown

MOST_ABOVE = 64
"""Bridges above one device; real machines have fewer than ten. A captured tree may be a ring."""


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """`gpus`, `nics`: the vertex of each, in the order of the node's own lists (NICs: those that NCCL would use)."""

    graph: Graph
    gpus: tuple[int, ...]
    nics: tuple[int, ...]


@dataclass(slots=True)
class _Draft:
    labels: list[str] = field(default_factory=list)
    edges: dict[tuple[int, int], str] = field(default_factory=dict)
    seen: dict[tuple[str, ...], int] = field(default_factory=dict)

    def vertex(self, key: tuple[str, ...], label: str, above: int | None) -> int:
        """The vertex of `key`, hung below `above` when it is new."""
        if key not in self.seen:
            self.seen[key] = len(self.labels)
            self.labels.append(label)
            if above is not None:
                self.edges[self.seen[key], above] = "up"
        return self.seen[key]


def in_sys(path: NodePath) -> bool:
    """Whether /sys shows the PCI tree with every GPU in it."""
    if isinstance(path.pci, Unknown) or isinstance(path.gpus, Unknown):
        return False
    addresses = {node.address for node in path.pci}
    return all(not isinstance(gpu.bus_id, Unknown) and gpu.bus_id in addresses for gpu in path.gpus)


def node_graph(path: NodePath, unknowns: Unknowns) -> NodeGraph:
    """The graph; what is unknown of its parts is noted in `unknowns`, and the graph is then of no use."""
    gpus: Sequence[GpuPath] = unknowns.known("GPUs", path.gpus, ())
    nics = carrying(unknowns.known("NICs", path.nics, ()))
    tree = {node.address: node for node in unknowns.known("PCI tree", path.pci, ())}
    draft = _Draft()
    machine = draft.vertex(("machine",), _machine(path, unknowns), None)
    placed_gpus = tuple(
        draft.vertex(
            ("gpu", str(number)),
            _gpu(gpu, unknowns),
            _above(draft, machine, f"GPU {gpu.index}", gpu.bus_id, gpu.numa, tree, unknowns),
        )
        for number, gpu in enumerate(gpus)
    )
    placed_nics = tuple(
        draft.vertex(
            ("nic", str(number)),
            _nic(nic, unknowns),
            _above(draft, machine, f"NIC {nic.name}", nic.address, nic.numa, tree, unknowns),
        )
        for number, nic in enumerate(nics)
    )
    fabric = fabric_of(gpus, unknowns)
    vertex = {gpu.index: placed for gpu, placed in zip(gpus, placed_gpus, strict=True)}
    for gpu in gpus:
        for remote, links in sorted(fabric.elsewhere[gpu.index].items()):
            draft.labels[vertex[gpu.index]] += f", {links} NVLinks to {remote}"
    for (one, other), links in fabric.between.items():
        draft.edges[vertex[one], vertex[other]] = f"{links} NVLinks"
    return NodeGraph(Graph(tuple(draft.labels), draft.edges), placed_gpus, placed_nics)


def _machine(path: NodePath, unknowns: Unknowns) -> str:
    cpu = path.cpu
    said = (("vendor", cpu.vendor), ("family", cpu.family), ("model", cpu.model))
    words = [unknowns.known(f"CPU {name}", value, "") for name, value in said]
    sockets = unknowns.known("CPU sockets", cpu.sockets, 0)
    numa_nodes = unknowns.known("number of NUMA nodes", cpu.numa_nodes, 0)
    return f"machine {' '.join(words)}, {sockets} sockets, {numa_nodes} NUMA nodes"


def _gpu(gpu: GpuPath, unknowns: Unknowns) -> str:
    model = unknowns.known(f"GPU {gpu.index} model", gpu.model, "")
    return f"GPU {model}, {_most(gpu.pcie, f'GPU {gpu.index} PCIe link at most', unknowns)}"


def _nic(nic: NicPath, unknowns: Unknowns) -> str:
    ports = "; ".join(
        f"{layer} {'rate not said' if rate is None else f'{rate:g} Gb/s'}" for layer, rate in ports_of(nic, unknowns)
    )
    return f"NIC {'RDMA ' if nic.rdma else ''}{model_of(nic, unknowns)}, {ports}"


def _most(link: Link, part: str, unknowns: Unknowns) -> str:
    generation = unknowns.known(part, link.generation_max, 0)
    width = unknowns.known(part, link.width_max, 0)
    return f"PCIe gen {generation} x{width}"


def _above(
    draft: _Draft,
    machine: int,
    name: str,
    address: str | Unknown | None,
    numa: int | Unknown,
    tree: Mapping[str, PciNode],
    unknowns: Unknowns,
) -> int:
    """The vertex that a device hangs below, made with everything above it where it is not there yet.

    A device on no bus hangs from the machine itself, as NCCL attaches it to the first CPU.
    """
    if address is None:
        return machine
    device = tree.get(unknowns.known(f"PCI address of {name}", address, ""))
    if device is None:
        if not isinstance(address, Unknown):
            unknowns.add(f"place of {name}", f"{address} is not in the PCI tree that /sys shows")
        return machine
    bridges: list[PciNode] = []
    while device.parent is not None:
        above = tree.get(device.parent)
        if above is None or len(bridges) >= MOST_ABOVE:
            unknowns.add(f"place of {name}", f"the bridge {device.parent} above it is not in the PCI tree, or a ring")
            return machine
        device = above
        bridges.append(device)
    own = tree[address] if isinstance(address, str) else device
    place = str(unknowns.known(f"NUMA node of {name}", numa if isinstance(own.numa, Unknown) else own.numa, -1))
    found = draft.vertex(("numa", place), "no NUMA node" if place == "-1" else "NUMA node", machine)
    found = draft.vertex(("root", place, device.root), "root complex", found)
    for bridge in reversed(bridges):
        link = _most(bridge.link, f"PCIe link at most of bridge {bridge.address}", unknowns)
        label = f"bridge {bridge.vendor}:{bridge.device}, {link}"
        found = draft.vertex(("bridge", place, bridge.address), label, found)
    return found
