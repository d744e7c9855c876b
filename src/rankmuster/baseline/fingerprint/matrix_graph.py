"""A node as a graph of the words of `nvidia-smi topo -m`, where there is no /sys to build the real one from.

It says how near each pair is and nothing of switches, their models or links. A hash over it is therefore a name of
another kind: it never equals one that was made from /sys, even of the same machine.
"""

from __future__ import annotations

import re

from rankmuster.baseline.fingerprint.canonical import Graph
from rankmuster.baseline.fingerprint.nics import carrying, model_of, ports_of
from rankmuster.baseline.fingerprint.node_graph import NodeGraph
from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.node_path import GpuPath, Matrix, NicPath, NodePath
from rankmuster.model.unknown import Unknown

KIND = "m"
MOST_NAMES = 512
"""GPUs and NICs of one matrix, as its reader takes them; every pair is an edge."""
_LINKED = re.compile(r"NV(\d{1,3})")


def matrix_graph(path: NodePath, unknowns: Unknowns) -> NodeGraph:
    """The graph of the matrix; what it lacks is noted in `unknowns`."""
    matrix = path.matrices.get(KIND)
    if matrix is None:
        unknowns.add("PCI tree", _why_no_tree(path))
        matrix = Matrix(KIND, {})
    gpus: tuple[GpuPath, ...] = unknowns.known("GPUs", path.gpus, ())
    nics = _in_matrix(matrix, carrying(unknowns.known("NICs", path.nics, ())), unknowns)
    names = [f"GPU{gpu.index}" for gpu in gpus] + [label for label, _ in nics]
    if len(names) > MOST_NAMES:
        unknowns.add("the matrix", f"it has {len(names):,} rows, more than {MOST_NAMES}")
        return NodeGraph(Graph((), {}), (), ())
    labels = [f"GPU {unknowns.known(f'GPU {gpu.index} model', gpu.model, '')}" for gpu in gpus]
    labels += [f"NIC {model_of(nic, unknowns)}, {ports_of(nic, unknowns)}" for _, nic in nics]
    mesh = _mesh(matrix, names[: len(gpus)])
    edges = {}
    for row, one in enumerate(names):
        for column, other in enumerate(names):
            if row == column:
                continue
            word = matrix.cells.get((one, other)) or matrix.cells.get((other, one))
            if word is None:
                unknowns.add(f"connection of {one} and {other}", "the matrix of `nvidia-smi topo -m` has no such cell")
            edges[row, column] = mesh if mesh and row < len(gpus) and column < len(gpus) else str(word)
    placed = range(len(names))
    return NodeGraph(Graph(tuple(labels), edges), tuple(placed[: len(gpus)]), tuple(placed[len(gpus) :]))


def _why_no_tree(path: NodePath) -> str:
    if isinstance(path.pci, Unknown):
        return path.pci.reason
    return "/sys does not show every GPU, and there is no matrix of `nvidia-smi topo -m` either"


def _in_matrix(matrix: Matrix, nics: tuple[NicPath, ...], unknowns: Unknowns) -> list[tuple[str, NicPath]]:
    """NICs with the labels that the matrix has for them; Ethernet interfaces without RDMA stand in no matrix."""
    label_of = {name: label for label, name in matrix.nics.items()}
    found = []
    for nic in nics:
        label = label_of.get(nic.name, nic.name)
        if (label, label) in matrix.cells or any(label in pair for pair in matrix.cells):
            found.append((label, nic))
        elif nic.rdma:
            unknowns.add(f"place of NIC {nic.name}", "the matrix of `nvidia-smi topo -m` does not show it")
    known = {label for label, _ in found}
    lost = {label for pair in matrix.cells for label in pair if not label.startswith("GPU")} - known
    if lost:
        unknowns.add(
            f"models of {', '.join(sorted(lost)[:4])}", "the matrix shows these NICs and nothing describes them"
        )
    return found


def _mesh(matrix: Matrix, gpus: list[str]) -> str | None:
    """`NV18` where every pair of GPUs is linked: the most that any pair has, for one that lost a link has NV17."""
    found = [_LINKED.fullmatch(matrix.cells.get((one, other), "")) for one in gpus for other in gpus if one != other]
    if len(gpus) < 2 or not all(found):
        return None
    numbers = {int(match.group(1)) for match in found if match}
    spread = max(numbers) - min(numbers)
    return f"NV{max(numbers)}" if spread * 2 < max(numbers) else None
