"""Ranks are written one way, whoever writes them."""

from __future__ import annotations

import pytest

from rankmuster.model.ranks_text import rank_ranges, ranks_text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([], ""), ([2], "2"), ([0, 1], "0, 1"), ([2, 0, 1], "0-2"), ([0, 1, 3, 2, 8, 9], "0-3, 8, 9"), ([4, 4], "4")],
)
def test_runs_of_three_and_more_are_folded(ranks: list[int], text: str) -> None:
    assert rank_ranges(ranks) == text


@pytest.mark.parametrize(
    ("ranks", "text"), [([], "no rank"), ([2], "rank 2"), ([0, 1], "ranks 0, 1"), (range(8), "ranks 0-7")]
)
def test_one_is_a_rank_and_more_are_ranks(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
