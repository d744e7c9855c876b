"""How far two PCI devices are from each other, in the words of `nvidia-smi topo`, from the tree of /sys.

PIX: at most one bridge on the way to the nearest common one; PXB: more of them; PHB: through the host bridge that both
hang on; NODE: between host bridges of one NUMA node; SYS: between sockets (nvidia-smi's own legend).
"""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.model.node_path import PciNode
from rankmuster.model.unknown import Unknown

MAX_DEPTH = 64
"""Bridges above a device: real trees have five or six; more is a circle in a damaged capture."""


def ancestors(tree: Mapping[str, PciNode], address: str) -> list[str]:
    """The bridges above, the nearest first."""
    found: list[str] = []
    node = tree.get(address)
    while node is not None and node.parent is not None and len(found) < MAX_DEPTH:
        found.append(node.parent)
        node = tree.get(node.parent)
    return found


def distance(tree: Mapping[str, PciNode], one: str, other: str, numa_nodes: int | Unknown) -> str | None:
    """The word; None where one of them is not in the tree, or the NUMA nodes that decide are not known."""
    first, second = tree.get(one), tree.get(other)
    if first is None or second is None:
        return None
    if one == other:
        return "X"
    above, beyond = ancestors(tree, one), ancestors(tree, other)
    for hops, bridge in enumerate(above):
        if bridge in beyond:
            return "PIX" if max(hops, beyond.index(bridge)) <= 1 else "PXB"
    if one[:-1] == other[:-1] and first.root == second.root:
        return "PIX"  # two functions of one device
    if first.root == second.root:
        return "PHB"
    if not isinstance(numa_nodes, Unknown) and numa_nodes == 1:
        return "NODE"
    ours, theirs = first.numa, second.numa
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown) or ours < 0 or theirs < 0:
        return None
    return "NODE" if ours == theirs else "SYS"
