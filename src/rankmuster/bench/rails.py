"""Rails of a node: each GPU with its nearest NIC, and the variables that keep a benchmark on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model.node_path import GpuPath, NicPath, NodePath, PciNode
from rankmuster.model.unknown import Unknown

_WORDS = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}
"""`nvidia-smi topo -m`: same switch, several switches, host bridge, NUMA node, between sockets."""

_SAME_ROOT, _SAME_NUMA, _FAR = 3, 4, 5


class NoRails(ValueError):
    """It is not known which NIC is near which GPU; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Rail:
    """`gpu`: CUDA's index in bus order; `nics`: RDMA devices by name."""

    gpu: int
    nics: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """`=`: exactly these devices, not all whose names begin so (NCCL's documentation of NCCL_IB_HCA)."""
        return {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": str(self.gpu),
            "NCCL_IB_HCA": "=" + ",".join(self.nics),
        }


def rails_of(path: NodePath) -> tuple[Rail, ...]:
    """One rail per GPU. GPUs with the same nearest NICs share them out in order; NICs slower than the fastest are for
    storage or management and belong to no rail.

    Raises NoRails.
    """
    if isinstance(path.gpus, Unknown):
        raise NoRails(f"the GPUs are not known ({path.gpus.reason})")
    if isinstance(path.nics, Unknown):
        raise NoRails(f"the NICs are not known ({path.nics.reason})")
    nics = _for_data([nic for nic in path.nics if nic.rdma])
    if not path.gpus or not nics:
        raise NoRails("the node has no GPU" if not path.gpus else "the node has no RDMA device that is up")
    shared: dict[tuple[str, ...], list[int]] = {}
    for gpu in path.gpus:
        distances = {nic.name: _distance(path, gpu, nic) for nic in nics}
        nearest = min(distances.values())
        shared.setdefault(tuple(name for name, far in distances.items() if far == nearest), []).append(gpu.index)
    rails = []
    for names, gpus in shared.items():
        each = max(len(names) // len(gpus), 1)
        for place, gpu_index in enumerate(sorted(gpus)):
            start = place * each % len(names)
            rails.append(Rail(gpu_index, names[start : start + each]))
    return tuple(sorted(rails, key=lambda rail: rail.gpu))


def _for_data(nics: Sequence[NicPath]) -> list[NicPath]:
    """Those with a port that is not down, of the highest rate."""
    up = [nic for nic in nics if any("DOWN" not in str(port.state).upper() for port in nic.ports)]
    fastest = max((_rate(nic) for nic in up), default=0.0)
    return [nic for nic in up if _rate(nic) == fastest]


def _rate(nic: NicPath) -> float:
    rates = [port.rate_gbps for port in nic.ports if not isinstance(port.rate_gbps, Unknown)]
    return max(rates, default=0.0)


def _distance(path: NodePath, gpu: GpuPath, nic: NicPath) -> int:
    """1 (one PCIe switch) to 5 (another socket), as `nvidia-smi topo -m` has them. Raises NoRails."""
    matrix = path.matrices.get("m")
    if matrix is not None:
        label = next((label for label, name in matrix.nics.items() if name == nic.name), nic.name)
        word = matrix.cells.get((f"GPU{gpu.index}", label))
        if word in _WORDS:
            return _WORDS[word]
    if isinstance(path.pci, Unknown):
        raise NoRails(f"neither a topology matrix nor the PCI tree is known ({path.pci.reason})")
    if not isinstance(gpu.bus_id, str) or not isinstance(nic.address, str):
        raise NoRails(f"the PCI address of GPU {gpu.index} or of {nic.name} is not known")
    tree = {node.address: node for node in path.pci}
    return _by_tree(tree, gpu.bus_id, nic.address)


def _by_tree(tree: dict[str, PciNode], one: str, other: str) -> int:
    ours, theirs = _bridges(tree, one), _bridges(tree, other)
    common = [bridge for bridge in ours if bridge in theirs]
    if common:
        # The port above a switch is its upstream port; a switch has at least one more bridge below it.
        return 1 if ours.index(common[0]) <= 1 and theirs.index(common[0]) <= 1 else 2
    first, second = tree.get(one), tree.get(other)
    if first is None or second is None:
        raise NoRails(f"{one if first is None else other} is not in the PCI tree")
    if first.root == second.root:
        return _SAME_ROOT
    known = isinstance(first.numa, int) and isinstance(second.numa, int)
    return _SAME_NUMA if known and first.numa == second.numa else _FAR


def _bridges(tree: dict[str, PciNode], address: str) -> list[str]:
    found: list[str] = []
    node = tree.get(address)
    while node is not None and node.parent is not None and node.parent not in found:
        found.append(node.parent)
        node = tree.get(node.parent)
    return found
