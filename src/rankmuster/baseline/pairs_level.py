"""How fast a healthy pair is, where nothing but the pairs themselves says it, and how far that can be believed.

A pair is as fast as the slower of its two nodes, so the fastest pairs are the healthy ones, if any pair of two good
nodes was measured at all. Pairs that are all alike do not show that: a bad node in each of them looks the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import median

FEW_BAD = 3
"""So many bad nodes that are slow alike are reckoned with in any set, and up to half of the nodes of a larger one: a
bad batch, a switch or a setting makes some nodes alike. Of fewer than five nodes they would be all but one."""

Pair = frozenset[str]


def reference_of(values: Sequence[float], tolerance: float) -> float | None:
    """GB/s of the fastest pairs: the median of those that are within the tolerance of the fastest. Measuring suspects
    again, which adds slow results and no fast ones, does not move it; a quantile of all results would fall."""
    if not values:
        return None
    least = max(values) * (1 - tolerance)
    return median(value for value in values if value >= least)


def most_bad(nodes: int) -> int:
    """How many bad nodes are reckoned with."""
    return max(FEW_BAD, nodes // 2)


def cliques(pairs: Collection[Pair], nodes: Sequence[str]) -> list[list[str]]:
    """All of the nodes in disjoint sets within which every two are one of the pairs, large ones first: found by
    greed, so that larger ones may exist."""
    beside: dict[str, set[str]] = {node: set() for node in nodes}
    for one, other in map(tuple, pairs):
        if one in beside and other in beside:
            beside[one].add(other)
            beside[other].add(one)
    left = sorted(nodes, key=lambda node: -len(beside[node]))  # sorting keeps the order of equals
    free = set(left)
    found = []
    for first in left:
        if first not in free:
            continue
        clique, common = [first], beside[first] & free
        while common:
            member = next(node for node in left if node in common) if len(common) > 1 else next(iter(common))
            clique.append(member)
            common &= beside[member]
        free -= set(clique)
        found.append(clique)
    return sorted(found, key=lambda clique: -len(clique))


def hidden(pairs: Collection[Pair], nodes: Sequence[str]) -> int:
    """How many nodes at least would have to be bad for each of the pairs to have a bad one: of nodes that were all
    measured with each other all but one."""
    return sum(len(clique) - 1 for clique in cliques(pairs, nodes))


def widening(fast: Collection[Pair], met: Collection[Pair], nodes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Disjoint pairs that make one set out of two of those within which all were measured; () where none is left."""
    sets = cliques(fast, nodes)
    for place, one in enumerate(sets):
        for other in sets[place + 1 :]:
            chosen = _disjoint((a, b) for a in one for b in other if frozenset((a, b)) not in met)
            if chosen:
                return chosen
    return ()


def _disjoint(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    seated: set[str] = set()
    chosen = []
    for pair in pairs:
        if not seated & set(pair):
            seated |= set(pair)
            chosen.append(pair)
    return tuple(chosen)
