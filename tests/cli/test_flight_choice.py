"""Filters: ranks as lists and ranges, groups by name, description or number, and errors that say what there is."""

from __future__ import annotations

import pytest

from rankmuster.cli.flight_choice import keys_of, ranks_of
from rankmuster.cli.status import CommandError
from rankmuster.model.job import Group

GROUPS = (
    Group(0, "0", "default_pg", (0, 1, 2, 3)),
    Group(1, "7", "TP", (0, 1)),
    Group(2, "9", "TP", (2, 3)),
    Group(3, "abc", "undefined", (1, 3)),
)


def test_ranks_are_lists_and_ranges() -> None:
    assert ranks_of([]) is None
    assert ranks_of(["0,3,8-11", "2"]) == {0, 2, 3, 8, 9, 10, 11}
    assert ranks_of([" 5 - 6 "]) == {5, 6}


@pytest.mark.parametrize("text", ["", "1-", "x", "-1", "3-1", "1,,2", "0x1", "9999999", "1-2-3", "¹"])
def test_what_is_no_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--rank"):
        ranks_of([text])


def test_groups_by_name_description_or_number() -> None:
    assert keys_of([], None, GROUPS) is None
    assert keys_of(["TP"], None, GROUPS) == {1, 2}
    assert keys_of(["7", "abc"], None, GROUPS) == {1, 3}
    assert keys_of(["3"], None, GROUPS) == {3}
    assert keys_of([], frozenset({2}), GROUPS) == {0, 2}
    assert keys_of(["TP"], frozenset({2}), GROUPS) == {2}


def test_a_group_or_rank_that_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(CommandError, match="default_pg, TP"):
        keys_of(["EP"], None, GROUPS)
    with pytest.raises(CommandError, match="no group of these dumps has such a member; there are ranks"):
        keys_of([], frozenset({99}), GROUPS)
    with pytest.raises(CommandError, match="there are none"):
        keys_of(["EP"], None, ())
