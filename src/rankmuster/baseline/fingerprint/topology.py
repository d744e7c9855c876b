"""The name of a node model and the order of its NICs, from /sys where it shows the GPUs, else from the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.baseline.fingerprint.canonical import Graph, TooSymmetric, canonical_form, stable_colours
from rankmuster.baseline.fingerprint.matrix_graph import KIND, matrix_graph
from rankmuster.baseline.fingerprint.node_graph import NodeGraph, in_sys, node_graph
from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.digest import digest
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

SCHEME = 1
"""Of what a topology hash is over; a change of the graph's making changes it, and no old hash equals a new one."""


class TopologySource(str, Enum):
    """What a topology hash is over; part of the hash, so that hashes of two sources are never equal."""

    SYS = "sys"
    MATRIX = "matrix"


@dataclass(frozen=True, slots=True)
class Topology:
    """`nic_order`: see `Fingerprint`."""

    source: TopologySource
    hash: str | Unknown
    nic_order: tuple[int, ...] | Unknown


def topology_of(path: NodePath) -> Topology:
    """Never raises: what cannot be named is Unknown, with every unknown part in the reason."""
    unknowns = Unknowns()
    source = TopologySource.MATRIX if not in_sys(path) and KIND in path.matrices else TopologySource.SYS
    built = matrix_graph(path, unknowns) if source is TopologySource.MATRIX else node_graph(path, unknowns)
    if unknowns:
        return Topology(source, unknowns.as_unknown(), unknowns.as_unknown())
    try:
        labels, edges = canonical_form(built.graph)
        order = _nic_order(built)
    except TooSymmetric as refused:
        unknown = Unknown(f"the graph of the node was given up: {refused}")
        return Topology(source, unknown, unknown)
    return Topology(source, digest([SCHEME, source.value, labels, edges]), order)


def _nic_order(built: NodeGraph) -> tuple[int, ...]:
    """The place of each NIC among the node's NICs, in NCCL's order, with the GPUs told apart by their numbers.

    NICs that are alike to every GPU have the same place: it does not matter which of them comes first.
    """
    labels = list(built.graph.labels)
    for number, vertex in enumerate(built.gpus):
        labels[vertex] = f"{number:06d} {labels[vertex]}"
    colours = stable_colours(Graph(tuple(labels), built.graph.edges))
    places = sorted(colours[vertex] for vertex in built.nics)
    return tuple(places.index(colours[vertex]) for vertex in built.nics)
