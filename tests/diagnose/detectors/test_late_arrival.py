"""Who came last is told by all that went before a round; that the others waited, by the round itself."""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.slow.lateness import waits

ROUNDS = np.array([1, 2])


def seconds(durations: list[list[float]]) -> tuple[list[float], list[int]]:
    """Waits and last ranks for two rounds after one broadcast; `durations`: per rank, in ms."""
    waited, last = waits(np.array(durations), ROUNDS)
    return [round(value, 6) for value in waited.tolist()], last.tolist()


def test_a_wait_taken_up_by_the_broadcast_does_not_hide_who_was_late() -> None:
    # Rank 3 waited in the broadcast already; rank 2 is the one that all waited for.
    waited, last = seconds([[0.02, 6.0, 0.1], [0.02, 6.0, 0.1], [0.02, 0.05, 0.1], [6.0, 0.04, 0.1]])
    assert last[0] == 2
    assert waited[0] == 0.00595


def test_a_root_that_leaves_its_broadcast_early_is_not_late() -> None:
    # The others wait for the root's host work in the broadcast, as in any engine whose first rank schedules.
    waited, _ = seconds([[0.02, 0.05, 0.1], [5.0, 0.05, 0.1], [5.0, 0.05, 0.1], [5.0, 0.05, 0.1]])
    assert waited == [0.0, 0.0]


def test_of_two_ranks_the_one_that_never_waits_is_last() -> None:
    waited, last = seconds([[0.02, 20.0, 0.1], [0.02, 0.03, 0.1]])
    assert last[0] == 1
    assert waited[0] == 0.01997


def test_nobody_waits_where_all_come_together() -> None:
    waited, _ = seconds([[0.02, 0.05, 0.1]] * 4)
    assert waited == [0.0, 0.0]


def test_no_round_is_no_wait() -> None:
    waited, last = waits(np.ones((4, 3)), np.zeros(0, dtype=np.int64))
    assert len(waited) == len(last) == 0
