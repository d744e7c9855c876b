"""The canonical form is that of the wiring: renaming never changes it, other wiring always does."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.baseline.fingerprint import canonical
from rankmuster.baseline.fingerprint.canonical import Graph, TooSymmetric, canonical_form


def undirected(labels: list[str], edges: dict[tuple[int, int], str]) -> Graph:
    return Graph(tuple(labels), edges | {(other, one): label for (one, other), label in edges.items()})


def renamed(graph: Graph, order: list[int]) -> Graph:
    """Vertex i becomes order[i], and everything is listed in another order."""
    labels = [""] * len(order)
    for vertex, place in enumerate(order):
        labels[place] = graph.labels[vertex]
    edges = {(order[one], order[other]): label for (one, other), label in reversed(graph.edges.items())}
    return Graph(tuple(labels), edges)


def shuffled(graph: Graph, seed: int) -> Graph:
    order = list(range(len(graph.labels)))
    random.Random(seed).shuffle(order)
    return renamed(graph, order)


def rings(*sizes: int) -> Graph:
    edges, start = {}, 0
    for size in sizes:
        edges |= {(start + i, start + (i + 1) % size): "nvlink" for i in range(size)}
        start += size
    return undirected(["gpu"] * start, edges)


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> Graph:
    count = draw(st.integers(1, most))
    labels = draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count))
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    edges = draw(st.dictionaries(st.sampled_from(pairs), st.sampled_from("xy"))) if pairs else {}
    return Graph(tuple(labels), edges)


def same_by_trying(one: Graph, other: Graph) -> bool:
    return any(
        (renamed(one, list(order)).labels, dict(renamed(one, list(order)).edges)) == (other.labels, dict(other.edges))
        for order in itertools.permutations(range(len(one.labels)))
        if len(one.labels) == len(other.labels)
    )


@settings(deadline=None)
@given(graphs(most=9), st.integers())
def test_renaming_never_changes_it(graph: Graph, seed: int) -> None:
    assert canonical_form(graph) == canonical_form(shuffled(graph, seed))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_it_is_equal_exactly_where_one_is_a_renaming_of_the_other(data: st.DataObject) -> None:
    one = data.draw(graphs(most=5))
    pairs = [(i, j) for i in range(len(one.labels)) for j in range(len(one.labels)) if i != j]
    edges = dict(one.edges)
    for pair in data.draw(st.lists(st.sampled_from(pairs), max_size=2)) if pairs else []:
        edges[pair] = data.draw(st.sampled_from("xy"))
    other = shuffled(Graph(one.labels, edges), data.draw(st.integers()))
    assert (canonical_form(one) == canonical_form(other)) is same_by_trying(one, other)


@settings(deadline=None)
@given(st.integers(4, 9), st.integers(0, 3), st.integers())
def test_renaming_never_changes_a_regular_graph(count: int, degree: int, seed: int) -> None:
    edges = {(i, (i + step) % count): "x" for i in range(count) for step in range(1, degree + 1) if step * 2 <= count}
    graph = undirected(["gpu"] * count, edges)
    assert canonical_form(graph) == canonical_form(shuffled(graph, seed))


def test_two_rings_of_four_are_not_one_ring_of_eight() -> None:
    assert canonical.stable_colours(rings(4, 4)) == canonical.stable_colours(rings(8))  # refinement alone is fooled
    assert canonical_form(rings(4, 4)) != canonical_form(rings(8))
    assert canonical_form(rings(4, 4)) == canonical_form(shuffled(rings(4, 4), 5))


def rook() -> Graph:
    cells = [(i, j) for i in range(4) for j in range(4)]
    return undirected(
        ["gpu"] * 16,
        {
            (a, b): "x"
            for a, b in itertools.combinations(range(16), 2)
            if cells[a][0] == cells[b][0] or cells[a][1] == cells[b][1]
        },
    )


def shrikhande() -> Graph:
    near = {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)}
    cells = [(i, j) for i in range(4) for j in range(4)]
    return undirected(
        ["gpu"] * 16,
        {
            (a, b): "x"
            for a, b in itertools.combinations(range(16), 2)
            if ((cells[a][0] - cells[b][0]) % 4, (cells[a][1] - cells[b][1]) % 4) in near
        },
    )


def test_strongly_regular_graphs_of_the_same_numbers_differ() -> None:
    assert canonical_form(rook()) != canonical_form(shrikhande())
    for graph in (rook(), shrikhande()):
        assert all(canonical_form(graph) == canonical_form(shuffled(graph, seed)) for seed in range(8))


def cube(dimensions: int) -> Graph:
    size = 1 << dimensions
    return undirected(["gpu"] * size, {(i, i ^ (1 << d)): "x" for i in range(size) for d in range(dimensions)})


@pytest.mark.parametrize(
    "graph",
    [
        rings(72),
        rings(*[8] * 9),
        rings(5, 7, 60),
        cube(3),
        cube(6),
        undirected(["gpu"] * 72, dict.fromkeys(itertools.combinations(range(72), 2), "nvlink x2")),
        undirected(["gpu"] * 72 + ["switch"], {(i, 72): "nvlink x18" for i in range(72)}),
        undirected(["gpu"] * 16, {p: "x" for p in itertools.combinations(range(16), 2) if p[1] - p[0] != 8}),
    ],
    ids=["ring of 72", "9 rings", "3 rings", "cube", "6-cube", "mesh", "switch", "mesh less a matching"],
)
def test_symmetric_fabrics_are_named_alike_however_listed(graph: Graph) -> None:
    forms = [canonical_form(shuffled(graph, seed)) for seed in range(4)]
    assert all(form == forms[0] for form in forms)


def test_what_was_made_to_take_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MOST_WORK", 10_000)
    with pytest.raises(TooSymmetric, match="within 10,000 steps"):
        canonical_form(cube(6))
    with pytest.raises(TooSymmetric, match="more than"):
        canonical_form(undirected(["gpu"] * (canonical.MOST_VERTICES + 1), {}))


def test_a_cube_of_nine_dimensions_is_given_up() -> None:
    with pytest.raises(TooSymmetric):
        canonical_form(shuffled(cube(9), 1))
