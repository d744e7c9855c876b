"""NICs in the matrices of `nvidia-smi topo -m` and -mp, from where they sit in the PCI tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from rankmuster.evidence.pci_distance import distance
from rankmuster.model.node_path import GpuPath, Matrix, NicPath, PciNode
from rankmuster.model.unknown import Unknown

KINDS = ("m", "mp")
MAX_NICS = 128
"""Rows of NICs: a host has at most a few dozen RDMA devices; virtual functions beyond are left out."""


def with_nics(
    matrices: Mapping[str, Matrix],
    gpus: tuple[GpuPath, ...] | Unknown,
    nics: tuple[NicPath, ...] | Unknown,
    pci: tuple[PciNode, ...] | Unknown,
    numa_nodes: int | Unknown,
) -> dict[str, Matrix]:
    """The same with rows and columns NIC0.. for the RDMA devices, in their order. A pair that the tree does not tell
    has no cell."""
    found = dict(matrices)
    if isinstance(gpus, Unknown) or isinstance(nics, Unknown) or isinstance(pci, Unknown) or not gpus:
        return found
    tree = {node.address: node for node in pci}
    rdma = [nic for nic in nics if nic.rdma][:MAX_NICS]
    places = {f"GPU{gpu.index}": gpu.bus_id for gpu in gpus} | {f"NIC{i}": nic.address for i, nic in enumerate(rdma)}
    known = {label: place for label, place in places.items() if isinstance(place, str)}
    words = {
        (row, column): word
        for row, column in product(known, known)
        if (row.startswith("NIC") or column.startswith("NIC"))
        and (word := distance(tree, known[row], known[column], numa_nodes)) is not None
    }
    legend = {f"NIC{i}": nic.name for i, nic in enumerate(rdma)}
    for kind in KINDS:
        if kind in found and legend:
            found[kind] = replace(found[kind], cells={**found[kind].cells, **words}, nics=legend)
    return found
