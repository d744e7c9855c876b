"""What a stable colouring leaves open of a graph: the exceptions between colours, and the parts they connect.

Between the vertices of two colours, every vertex of the one has equally many neighbours in the other. Where all pairs
look alike, no order of equal vertices changes anything, and the edges can be left out. The same holds of the commonest
look among those pairs, "not connected" included, once all other pairs are kept: it is what remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Neighbours = dict[int, list[tuple[int, int]]]
"""vertex -> (neighbour, number of the label seen from the vertex)."""

_T = TypeVar("_T", str, tuple[str, str], tuple[int, tuple[tuple[int, int], ...]])


def ranks(values: Iterable[_T]) -> dict[_T, int]:
    """0, 1, ... for the distinct values in their order."""
    return {value: rank for rank, value in enumerate(sorted(set(values)))}


@dataclass(frozen=True, slots=True)
class Labels:
    """`reverse`: number of a label -> of the same edge seen from its other end."""

    reverse: Mapping[int, int]

    def other_end(self, label: int) -> int:
        """The label of the same edge seen from its other end."""
        return self.reverse.get(label, label)


def absent(depth: int) -> int:
    """The label of pairs without an edge, where the edges are what is left out; one for each depth, as the meaning of
    "without an edge" changes with every leaving out."""
    return -1 - depth


def exceptions(neighbours: Neighbours, colours: Mapping[int, int], labels: Labels, depth: int) -> Neighbours:
    """The graph without the commonest look between each two colours. `colours`: stable."""
    cells: dict[int, list[int]] = {}
    for vertex in neighbours:
        cells.setdefault(colours[vertex], []).append(vertex)
    common: dict[tuple[int, int], int | None] = {}  # None: no edge is commonest
    added: set[tuple[int, int]] = set()
    for colour, members in cells.items():
        counts: dict[int, Counter[int]] = {}
        for other, label in neighbours[members[0]]:
            counts.setdefault(colours[other], Counter())[label] += 1
        for beside, count in counts.items():
            if beside < colour:  # seen from the other end
                continue
            room = len(cells[beside]) - (beside == colour)
            without = room - count.total()
            usable = {one: n for one, n in count.items() if beside != colour or labels.other_end(one) == one}
            best = max(usable, key=lambda one: (usable[one], -one), default=None)
            if best is None or without >= usable[best]:
                continue
            common[colour, beside] = best
            common[beside, colour] = labels.other_end(best)
            if without:
                added |= {(colour, beside), (beside, colour)}
    kept: Neighbours = {}
    for vertex, near in neighbours.items():
        colour = colours[vertex]
        kept[vertex] = [one for one in near if common.get((colour, colours[one[0]])) != one[1]]
        connected = {other for other, _ in near}
        for beside in {colours[other] for other in connected}:
            if (colour, beside) in added:
                kept[vertex] += [
                    (other, absent(depth)) for other in cells[beside] if other != vertex and other not in connected
                ]
    return kept


def parts_of(neighbours: Neighbours) -> list[list[int]]:
    """The vertices that are connected with one another."""
    left = dict.fromkeys(neighbours)
    found = []
    while left:
        part = [left.popitem()[0]]
        for vertex in part:
            for other, _ in neighbours[vertex]:
                if other in left:
                    del left[other]
                    part.append(other)
        found.append(part)
    return found


class Orbits:
    """Vertices that symmetries carry into one another, and which of those were tried."""

    def __init__(self, vertices: Iterable[int]) -> None:
        self._above = {vertex: vertex for vertex in vertices}
        self._tried: set[int] = set()

    def tried(self, vertex: int) -> bool:
        """Whether this vertex, or one that a symmetry carries it to, was tried already."""
        root = self._root(vertex)
        return any(self._root(one) == root for one in self._tried)

    def mark(self, vertex: int) -> None:
        """As tried."""
        self._tried.add(vertex)

    def join(self, carried: Iterable[tuple[int, int]]) -> None:
        """`carried`: each vertex and where a symmetry carries it."""
        for one, other in carried:
            if one in self._above:
                self._above[self._root(one)] = self._root(other)

    def _root(self, vertex: int) -> int:
        while self._above[vertex] != vertex:
            self._above[vertex] = self._above[self._above[vertex]]
            vertex = self._above[vertex]
        return vertex
