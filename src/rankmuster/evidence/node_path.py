"""A node's path from captured text: what `nvidia-smi`, RDMA tools and captures of /sys say, made one `NodePath`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rankmuster.evidence.nic_order import rule
from rankmuster.evidence.node_path_gpus import captured_gpus, shared_fact
from rankmuster.evidence.node_path_hosts import UNNAMED, NotOneNode, Piece, hosts_in, of_host
from rankmuster.evidence.node_path_nics import captured_nics, nics_of
from rankmuster.evidence.node_path_rest import (
    captured_container,
    captured_cpu,
    captured_settings,
    captured_software,
    captured_view,
)
from rankmuster.evidence.pci import address
from rankmuster.model.captured_path import CapturedTree
from rankmuster.model.node_path import Matrix, NodePath, PciNode
from rankmuster.model.problem import Problem
from rankmuster.model.topology import PciAccessControl, TopologyMatrix
from rankmuster.model.unknown import Unknown

__all__ = ["UNNAMED", "NotOneNode", "from_evidence", "hosts_in", "node_paths"]

SWITCH = "0x0680"
NVIDIA = "0x10de"


def from_evidence(
    observations: Sequence[object],
    *,
    host: str | None = None,
    taken_at: float = math.nan,
    problems: Iterable[Problem] = (),
) -> NodePath:
    """The node of `host`; without one, of the only host that the evidence names.

    `observations`: of `evidence.bundle.load(path, readers=node_path_readers.for_node_paths())`; `problems`: what that
    could not read, kept in `sources`. `taken_at`: unix seconds, not a number where it is not known. What no text says
    is Unknown. Raises NotOneNode.
    """
    name, own = of_host(observations, host)
    tree, pci = _tree(own)
    settings = captured_settings(observations)
    software = captured_software(observations)
    order = rule(
        software.nccl if isinstance(software.nccl, str) else None, {} if isinstance(settings, Unknown) else settings
    )
    gpus = captured_gpus(own, tree)
    notes = [(problem.source, f"{problem.kind.value}: {problem.message}") for problem in problems]
    return NodePath(
        host=name,
        taken_at=taken_at,
        driver=shared_fact(own, "driver"),
        cuda_driver=shared_fact(own, "cuda"),
        gpus=gpus,
        nvswitches=_switches(pci),
        matrices=_matrices(own),
        pci=pci,
        nics=captured_nics(own, tree, order),
        cpu=captured_cpu(own),
        container=captured_container(own, gpus, tree),
        software=software,
        nccl_settings=settings,
        nccl_view=captured_view(observations),
        sources=(*((piece.source, type(piece).__name__) for piece in _first_of_each(own)), *notes),
    )


def node_paths(observations: Sequence[object], *, taken_at: float = math.nan) -> tuple[NodePath, ...]:
    """One for each host that the evidence names. Raises NotOneNode where it tells of none."""
    hosts = hosts_in(observations)
    return tuple(from_evidence(observations, host=host, taken_at=taken_at) for host in hosts or (None,))


def _first_of_each(own: Sequence[Piece]) -> list[Piece]:
    return list({(piece.source, type(piece)): piece for piece in reversed(own)}.values())[::-1]


def _tree(own: Sequence[Piece]) -> tuple[dict[str, PciNode], tuple[PciNode, ...] | Unknown]:
    """(devices by address, the same as a tree): a text that does not place them still tells their NUMA nodes."""
    captured = [piece for piece in own if isinstance(piece, CapturedTree)]
    found: dict[str, PciNode] = {}
    for part in sorted(captured, key=lambda part: not part.placed):
        for node in part.nodes:
            known = found.get(node.address)
            found[node.address] = node if known is None else _with_acs(known, node.acs_redirects)
    for piece in own:
        place = address(piece.device) if isinstance(piece, PciAccessControl) and piece.device else None
        if isinstance(piece, PciAccessControl) and place in found:
            found[place] = _with_acs(found[place], piece.redirects)
    if not captured:
        return found, Unknown("no text tells the PCI tree (a capture of /sys/bus/pci/devices, or lspci -vvv)")
    if not any(part.placed for part in captured):
        return found, Unknown(
            "the captured text does not tell which bridge each PCI device hangs on (readlink, lspci -vv)"
        )
    return found, tuple(node for _, node in sorted(found.items()))


def _with_acs(node: PciNode, redirects: bool | Unknown) -> PciNode:
    if not isinstance(node.acs_redirects, Unknown) or isinstance(redirects, Unknown):
        return node
    return PciNode(
        *(node.address, node.root, node.parent, node.class_code, node.vendor, node.device, node.numa, node.link),
        redirects,
    )


def _switches(pci: tuple[PciNode, ...] | Unknown) -> int | Unknown:
    if isinstance(pci, Unknown):
        return pci
    return sum(node.vendor == NVIDIA and node.class_code.startswith(SWITCH) for node in pci)


def _matrices(own: Sequence[Piece]) -> dict[str, Matrix]:
    """By kind. Raises NotOneNode where two of a kind differ: captures of two machines, or of two times."""
    found: dict[str, tuple[str, Matrix]] = {}
    for piece in own:
        if not isinstance(piece, TopologyMatrix):
            continue
        nics = nics_of(piece)
        labels = {name: label for label, name in nics.items() if name in piece.rows or name in piece.columns}
        cells = {
            (labels.get(row, row), labels.get(column, column)): word for (row, column), word in piece.cells.items()
        }
        before = found.get(piece.kind)
        if before is not None and any(before[1].cells.get(cell, word) != word for cell, word in cells.items()):
            raise NotOneNode(
                f"two matrices of kind {piece.kind!r} differ, one in {before[0]} and one in {piece.source}, and the "
                "texts do not tell their hosts apart; give captures of one host, or put the host's prompt above each"
            )
        merged = {**before[1].cells, **cells} if before is not None else cells
        found[piece.kind] = (piece.source, Matrix(piece.kind, merged, nics))
    return {kind: matrix for kind, (_, matrix) in sorted(found.items())}
