"""The canonical order of a graph: the same for every renaming of its vertices, another graph for another wiring.

Colour refinement alone cannot tell two rings of four from one ring of eight, and trying every order of eight equal GPUs
takes 40,320 attempts. So colours are refined until they are stable; what the colours already say is left out; and the
parts that are then no longer connected are put in order each by itself (`graph_parts`). Only a part that stays whole
with several vertices of one colour needs attempts: each of those is singled out in turn, and the smallest outcome is
taken. Outcomes that are equal are symmetries, and vertices that they carry into one already tried are not tried
(McKay and Piperno, Practical graph isomorphism II, 2014, section 2). PCIe trees, a switch with 72 GPUs and full meshes
take no attempt at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.baseline.fingerprint.graph_parts import Labels, Neighbours, Orbits, exceptions, parts_of, ranks

MOST_WORK = 3_000_000
"""Vertices and edges looked at in all refinements of one graph; some two seconds. Real nodes (8 GPUs and 16 NICs behind
switches, 72 GPUs) take some thousands: what needs more was made to need it."""

MOST_VERTICES = 4_096
"""GPUs, NICs, bridges and NUMA nodes of one graph; the largest real nodes have some 200."""

MOST_DEPTH = 200
"""Parts within parts; each has fewer vertices than the one around it, and Python's stack ends at 1,000 calls."""

_Certificate = tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]
"""Colours of the vertices of a part in an order, and its edges between places in that order."""


class TooSymmetric(Exception):
    """The graph cannot be put in canonical order within the limits; the message says which."""


@dataclass(frozen=True, slots=True)
class Graph:
    """`labels`: of each vertex. `edges`: (from, to) -> label as seen from there; both directions may have one."""

    labels: tuple[str, ...]
    edges: Mapping[tuple[int, int], str]


def canonical_form(graph: Graph) -> tuple[list[str], list[list[int | str]]]:
    """(labels in canonical order, edges as [from, to, label] between places in it): equal for two graphs if, and only
    if, one is a renaming of the other. Raises TooSymmetric."""
    order = canonical_order(graph)
    place = {vertex: number for number, vertex in enumerate(order)}
    edges = sorted((place[one], place[other], label) for (one, other), label in graph.edges.items())
    return [graph.labels[vertex] for vertex in order], [list(edge) for edge in edges]


def canonical_order(graph: Graph) -> list[int]:
    """The vertices in canonical order; symmetric ones in any. Raises TooSymmetric."""
    work = _Work(graph)
    return work.order(work.neighbours, work.colours, 0)


def stable_colours(graph: Graph) -> list[int]:
    """Each vertex's colour after refinement: a number that no renaming changes. Raises TooSymmetric."""
    work = _Work(graph)
    found = work.refined(work.neighbours, work.colours)
    return [found[vertex] for vertex in range(len(graph.labels))]


class _Work:
    """A graph as numbers, and what may still be spent on it."""

    def __init__(self, graph: Graph) -> None:
        if len(graph.labels) > MOST_VERTICES:
            raise TooSymmetric(f"it has {len(graph.labels):,} parts, more than {MOST_VERTICES:,}")
        self._left = MOST_WORK
        rank = ranks(graph.labels)
        self.colours = {vertex: rank[label] for vertex, label in enumerate(graph.labels)}
        both = {*graph.edges, *((other, one) for one, other in graph.edges)}
        seen = {
            (one, other): (graph.edges.get((one, other), ""), graph.edges.get((other, one), "")) for one, other in both
        }
        number = ranks(seen.values())
        self._labels = Labels({number[pair]: number[pair[1], pair[0]] for pair in number})
        self.neighbours: Neighbours = {vertex: [] for vertex in self.colours}
        for (one, other), pair in seen.items():
            self.neighbours[one].append((other, number[pair]))

    def refined(self, neighbours: Neighbours, entry: Mapping[int, int]) -> dict[int, int]:
        """Colours split by the colours of neighbours until none splits any more, numbered 0, 1, ... in their order."""
        size = len(neighbours) + sum(len(near) for near in neighbours.values())
        found = {vertex: entry[vertex] for vertex in neighbours}
        count = 0
        while True:
            self._left -= size
            if self._left < 0:
                raise TooSymmetric(f"too many of its parts are alike to be put in order within {MOST_WORK:,} steps")
            signs = {
                vertex: (found[vertex], tuple(sorted((label, found[other]) for other, label in near)))
                for vertex, near in neighbours.items()
            }
            rank = ranks(signs.values())
            found = {vertex: rank[sign] for vertex, sign in signs.items()}
            if len(rank) == count:
                return found
            count = len(rank)

    def order(self, neighbours: Neighbours, entry: Mapping[int, int], depth: int) -> list[int]:
        """The vertices of one part in canonical order. `entry`: their colours in the part around it."""
        if depth > MOST_DEPTH:
            raise TooSymmetric(f"it has parts within parts more than {MOST_DEPTH} deep")
        colours = self.refined(neighbours, entry)
        kept = exceptions(neighbours, colours, self._labels, depth)
        self._left -= sum(len(near) for near in kept.values())
        parts = parts_of(kept)
        if len(parts) == 1 and len(parts[0]) > 1:
            return self._singled_out(kept, colours, depth)
        orders = []
        for part in parts:
            inside = {vertex: kept[vertex] for vertex in part}
            found = part if len(part) == 1 else self.order(inside, colours, depth + 1)
            orders.append((_certificate(found, inside, colours), found))
        orders.sort(key=lambda one: one[0])
        return [vertex for _, found in orders for vertex in found]

    def _singled_out(self, neighbours: Neighbours, colours: Mapping[int, int], depth: int) -> list[int]:
        """The smallest outcome of making one vertex of a colour differ from the others of that colour."""
        cells: dict[int, list[int]] = {}
        for vertex in neighbours:
            cells.setdefault(colours[vertex], []).append(vertex)
        cell = cells[min((len(members), colour) for colour, members in cells.items() if len(members) > 1)[1]]
        orbits = Orbits(cell)
        seen: dict[_Certificate, list[int]] = {}
        for vertex in cell:
            if orbits.tried(vertex):
                continue
            singled = {one: 2 * colours[one] + 1 for one in neighbours}
            singled[vertex] -= 1
            found = self.order(neighbours, singled, depth + 1)
            looks = _certificate(found, neighbours, colours)
            if looks in seen:
                orbits.join(zip(seen[looks], found, strict=True))
            seen.setdefault(looks, found)
            orbits.mark(vertex)
        return seen[min(seen)]


def _certificate(order: list[int], neighbours: Neighbours, colours: Mapping[int, int]) -> _Certificate:
    place = {vertex: number for number, vertex in enumerate(order)}
    edges = sorted(
        (number, place[other], label)
        for vertex, number in place.items()
        for other, label in neighbours[vertex]
        if number < place[other]
    )
    return tuple(colours[vertex] for vertex in order), tuple(edges)
