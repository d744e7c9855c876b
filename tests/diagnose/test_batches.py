"""Which rows belong to which terminator, whatever other groups do between them."""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.batches import Batches, coalesced


def collectives(found: Batches) -> dict[int, list[int]]:
    """Terminator -> its parts."""
    spans = zip(found.ends.tolist(), found.starts.tolist(), found.counts.tolist(), strict=True)
    return {end: found.parts[start : start + count].tolist() for end, start, count in spans}


def test_rows_of_other_groups_stand_between_a_terminator_and_its_children() -> None:
    group = np.array([0, 1, 0, 1, 0, 1])
    seq = np.array([5, 8, 5, 8, 5, 8])
    ends = np.array([False, False, False, False, True, True])
    found = coalesced(group, seq, ends, np.zeros(6, dtype=bool))
    assert collectives(found) == {4: [0, 2], 5: [1, 3]}
    assert found.child.tolist() == [True, True, True, True, False, False]
    assert found.terminator.tolist() == [4, 5, 4, 5, -1, -1]
    assert not found.of_p2p.any()


def test_a_terminator_takes_nothing_from_before_the_one_before_it() -> None:
    group = np.zeros(5, dtype=np.int64)
    seq = np.array([5, 5, 6, 6, 6])
    ends = np.array([False, True, False, False, True])
    found = coalesced(group, seq, ends, np.array([False, False, True, True, False]))
    assert collectives(found) == {1: [0]}
    assert found.terminator.tolist() == [1, -1, 4, 4, -1]
    assert found.of_p2p.tolist() == [False, False, False, False, True]


def test_terminators_without_children_among_many_rows_of_another_group_take_no_time() -> None:
    """Twenty thousand, each with all rows of the other group before it: walked back over, that takes minutes."""
    ends = np.arange(40_000) >= 20_000
    group = np.where(ends, np.arange(40_000), 0)
    found = coalesced(group, np.zeros(40_000, dtype=np.int64), ends, np.zeros(40_000, dtype=bool))
    assert collectives(found) == {}
    assert not found.child.any()
    assert not found.of_p2p.any()
