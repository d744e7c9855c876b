"""Which rows belong to which terminator, whatever other groups do between them."""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.batches import coalesced


def test_rows_of_other_groups_stand_between_a_terminator_and_its_children() -> None:
    group = np.array([0, 1, 0, 1, 0, 1])
    seq = np.array([5, 8, 5, 8, 5, 8])
    ends = np.array([False, False, False, False, True, True])
    child, collectives, batches = coalesced(group, seq, ends, np.zeros(6, dtype=bool))
    assert collectives == {4: (0, 2), 5: (1, 3)}
    assert child.tolist() == [True, True, True, True, False, False]
    assert batches == {}


def test_a_terminator_takes_nothing_from_before_the_one_before_it() -> None:
    group = np.zeros(5, dtype=np.int64)
    seq = np.array([5, 5, 6, 6, 6])
    ends = np.array([False, True, False, False, True])
    _, collectives, batches = coalesced(group, seq, ends, np.array([False, False, True, True, False]))
    assert collectives == {1: (0,)}
    assert batches == {4: (2, 3)}


def test_terminators_without_children_among_many_rows_of_another_group_take_no_time() -> None:
    """Twenty thousand, each with all rows of the other group before it: walked back over, that takes minutes."""
    ends = np.arange(40_000) >= 20_000
    group = np.where(ends, np.arange(40_000), 0)
    assert coalesced(group, np.zeros(40_000, dtype=np.int64), ends, np.zeros(40_000, dtype=bool))[1:] == ({}, {})
