"""What is picked out of a page: the wanted lines, however the page is cut into pieces and whatever else is on it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.watch.signals import engine_filter
from rankmuster.watch.signals.engine_filter import Filtered, PageFilter, wanted

PATTERN = wanted(["vllm:a", "vllm:ab_total", "x"], ["vllm:ab", "y"])


def filtered(*pieces: bytes, names: bool = False) -> Filtered:
    of = PageFilter(PATTERN, names)
    for piece in pieces:
        of.feed(piece)
    return of.done()


def test_samples_of_wanted_names_are_kept_and_no_others() -> None:
    page = (
        b'vllm:a 1\nvllm:a{b="c"} 2\n  vllm:a\t3\nvllm:ab_total 4\nx{} 5\r\n'
        b"vllm:ab 6\nvllm:abc 7\nxx 8\nvllm: 9\n# vllm:a 10\n\nzvllm:a 11\n# HELP x x 12\n"
    )
    kept = filtered(page)
    assert kept.lines == b'vllm:a 1\nvllm:a{b="c"} 2\n  vllm:a\t3\nvllm:ab_total 4\nx{} 5\r\n'
    assert (kept.size, kept.overflow, kept.names, kept.types) == (len(page), False, frozenset(), {})


def test_types_are_told_of_the_names_that_were_asked_for() -> None:
    page = b"# TYPE vllm:ab counter\n#  TYPE  y  GAUGE\r\n# TYPE x counter\n# TYPE yy counter\n# HELP y y\n# TYPE y\n"
    assert filtered(page).types == {"vllm:ab": "counter", "y": "gauge"}


def test_all_names_are_told_where_they_are_wanted() -> None:
    page = b'vllm:a 1\nb{c="d"} 2\n# TYPE e gauge\n<html>\nf_g:h\t3\n\xff 1\ni\n'
    assert filtered(page, names=True).names == {"vllm:a", "b", "f_g:h"}


def test_a_last_line_without_its_end_is_not_believed() -> None:
    assert filtered(b"x 1\nx 2").lines == b"x 1\n"
    assert filtered(b"x 1").lines == b""
    assert filtered(b"").lines == b""


@given(st.lists(st.integers(0, 90), max_size=12))
@settings(max_examples=60, deadline=None)
def test_where_a_page_is_cut_into_pieces_makes_no_difference(cuts: list[int]) -> None:
    page = b'vllm:a 1\nother 2\nvllm:ab_total{l="\xc3\xa4"} 3\nx 4\n# TYPE y gauge\nlonger_name_of_no_use 5\nx 6\n'
    places = [0, *sorted(cuts), len(page)]
    pieces = [page[one:other] for one, other in pairwise(places)]
    assert filtered(*pieces, names=True) == filtered(page, names=True)


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_no_bytes_raise(noise: bytes) -> None:
    kept = filtered(b"x 1\n" + noise, b"\nx 2\n" + noise, noise + b"\nx 3\n", names=True)
    assert b"x 1\n" in kept.lines
    assert b"x 3\n" in kept.lines


def test_a_line_without_end_is_dropped_up_to_its_end() -> None:
    long = b"y" * (engine_filter.MOST_LINE // 2)
    of = PageFilter(PATTERN)
    for piece in (b"x 1\nx{", long, long, long, long, b"}\nx 2\n"):
        of.feed(piece)
        assert len(of._rest) <= 2 * engine_filter.MOST_LINE
    assert of.done().lines == b"x 1\nx 2\n"
    assert filtered(b"x{" + long * 3 + b"} 1\nx 2\n").lines == b"x 2\n"


def test_more_than_any_page_has_is_not_kept() -> None:
    line = b'x{l="' + b"z" * 1000 + b'"} 1\n'
    of = PageFilter(PATTERN)
    for _ in range(40):
        of.feed(line * 100)
    kept = of.done()
    assert kept.overflow
    assert len(kept.lines) < engine_filter.MOST_KEPT + 2000


def test_names_are_bounded() -> None:
    of = PageFilter(PATTERN, True)
    for start in range(0, 20_000, 500):
        of.feed("".join(f"n{n} 1\n" for n in range(start, start + 500)).encode())
    assert engine_filter.MOST_NAMES <= len(of.done().names) < engine_filter.MOST_NAMES + 500


def test_nothing_is_wanted_of_nothing() -> None:
    of = PageFilter(wanted([]))
    of.feed(b"x 1\n 2\n\n{} 3\n")
    assert of.done().lines == b""


def test_names_with_signs_of_expressions_are_taken_as_they_are() -> None:
    of = PageFilter(wanted(["a.b", "c+", "(d"]))
    of.feed(b"a.b 1\naxb 2\nc+ 3\ncc 4\n(d 5\n")
    assert of.done().lines == b"a.b 1\nc+ 3\n(d 5\n"
