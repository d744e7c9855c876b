"""What pairs of nodes say in words, and their results as lines of a file."""

from __future__ import annotations

import pytest

from rankmuster.baseline.pairs import PairResult
from rankmuster.baseline.pairs_decode import NodeStanding
from rankmuster.baseline.pairs_file import NotPairs, as_line, read_lines
from rankmuster.baseline.pairs_rails import by_rail, faults
from rankmuster.baseline.pairs_words import as_text

NODES = ("a", "b", "c", "d")


def rail(number: int | None, bad: set[str]) -> list[PairResult]:
    pairs = [("a", "d"), ("b", "c"), ("a", "c"), ("d", "b"), ("a", "b"), ("c", "d")]
    return [PairResult(one, two, 24.0 if {one, two} & bad else 48.9, "", number) for one, two in pairs]


def test_a_weak_nic_of_one_node_is_a_rail_of_it() -> None:
    results = [one for number in range(8) for one in rail(number, {"c"} if number == 5 else set())]
    decoded = by_rail(NODES, results)
    assert [(fault.node, fault.rails, fault.whole) for fault in faults(decoded)] == [("c", (5,), False)]
    assert "c is slow on its rail 5: that GPU's NIC or cable" in as_text(decoded)
    assert decoded[4].of(NodeStanding.GOOD) == NODES


def test_a_node_slow_on_all_rails_is_the_node() -> None:
    decoded = by_rail(NODES, [one for number in range(8) for one in rail(number, {"b"})])
    assert "b is slow on all of its rails: the node, not one NIC" in as_text(decoded)


def test_a_hang_counts_against_both_and_is_shown() -> None:
    results = [PairResult("a", "b", None, "hung: did not end within 60 s"), PairResult("c", "d", 350.0)]
    decoded = by_rail(NODES, results)
    assert decoded[None].of(NodeStanding.UNDECIDED) == ("a", "b")
    text = as_text(decoded)
    assert "UNDECIDED a: failed (hung: did not end within 60 s) with b" in text
    assert "HUNG a - b: hung: did not end within 60 s; that does not tell which of the two nodes" in text
    assert decoded[None].bad
    assert "good: c, d" in text


def test_a_floor_below_health_does_not_hide_a_node_that_is_slower_than_the_others() -> None:
    slow = [PairResult(*pair, 25.0 if "d" in pair else 48.0) for pair in ("ab", "cd", "ac", "bd")]
    decoded = by_rail(NODES, slow, floor=20.0)[None]
    assert decoded.of(NodeStanding.BAD) == ("d",)
    assert any("reach the floor and are clearly slower than the fastest (48 GB/s)" in note for note in decoded.notes)


def test_measuring_suspects_again_does_not_move_the_reference() -> None:
    first = [PairResult("a", "f", 38.4), PairResult("b", "e", 38.5), PairResult("c", "d", 48.0)]
    again = [PairResult("a", "c", 38.3), PairResult("b", "d", 38.6), PairResult("e", "c", 48.1)]
    again += [PairResult("f", "d", 47.9), PairResult("a", "d", 38.2), PairResult("b", "c", 38.4)]
    assert by_rail("abcdef", first)[None].of(NodeStanding.UNDECIDED) == ("a", "b", "e", "f")
    assert by_rail("abcdef", first + again)[None].of(NodeStanding.BAD) == ("a", "b")


def test_one_fast_pair_of_many_convicts_nobody() -> None:
    """Two nodes may have something between them that the others have not (NVLink over nodes)."""
    pairs = [PairResult(one, two, 48.0) for one in "abcdef" for two in "abcdef" if one < two and one + two != "ab"]
    decoded = by_rail("abcdef", [PairResult("a", "b", 400.0), *pairs])[None]
    assert not decoded.of(NodeStanding.BAD)
    assert not decoded.all_good
    assert "which speed is the healthy one" in as_text({None: decoded})


def test_few_nodes_that_are_all_alike_may_be_alike_bad() -> None:
    alike = [PairResult("a", "b", 24.0), PairResult("b", "c", 24.1), PairResult("a", "c", 24.0)]
    assert not by_rail("abc", alike)[None].all_good
    assert "give --floor, or two --trusted nodes" in as_text(by_rail("abc", alike))
    assert by_rail("abc", alike, floor=23.0)[None].all_good
    assert by_rail("abc", alike, trusted=("a", "c"))[None].all_good


def test_a_path_once_slow_is_to_be_measured_again() -> None:
    results = [
        PairResult("a", "b", 100.0),
        *(PairResult(*pair, 350.0) for pair in (("a", "c"), ("b", "d"), ("c", "d"))),
    ]
    (path,) = by_rail(NODES, results)[None].paths
    assert not path.certain
    assert "measure it again" in path.reason
    (path,) = by_rail(NODES, [*results, PairResult("b", "a", 101.0)])[None].paths
    assert path.certain


def test_results_come_back_from_their_lines() -> None:
    results = (PairResult("a", "b", 48.9, "", 3), PairResult("c", "d", None, "hung: ünd", None))
    assert read_lines("".join(as_line(one) for one in results).encode(), "f") == results


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        as_line(PairResult("a", "b", 1.0))[:-5],
        as_line(PairResult("a", "a", 1.0)),
        as_line(PairResult("a", "b", 1.0)).replace("1.0", '"fast"'),
        as_line(PairResult("a", "b", 1.0)).replace("1.0", "NaN"),
        as_line(PairResult("a", "b", 1.0)).replace("pair/1", "pair/2"),
        as_line(PairResult("a", "b", 1.0)).replace('"rail": null', '"rail": -1'),
        "[" * 100_000,
    ],
)
def test_lines_that_are_none_are_refused_with_their_place(line: str) -> None:
    good = as_line(PairResult("a", "b", 1.0))
    with pytest.raises(NotPairs, match="f, line 2"):
        read_lines((good + line).encode(), "f")
