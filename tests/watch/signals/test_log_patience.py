"""A file server that is gone costs a bounded number of threads, however long the watch goes on."""

from __future__ import annotations

import threading

from rankmuster.collect.deadline import Deadline
from rankmuster.watch.signals.log_patience import MOST_HANGING, Patience


def test_calls_that_hang_are_bounded_and_count_no_longer_when_they_return() -> None:
    patience, gate, begun = Patience(), threading.Event(), []

    def hang(item: int) -> int:
        begun.append(item)
        gate.wait(60)
        return item

    for number in range(MOST_HANGING + 4):
        patience.each([number], hang, Deadline.after(0.05))
    assert patience.spent
    assert len(begun) == MOST_HANGING + 1
    done = patience.each([1, 2], lambda item: item, Deadline.after(5))
    assert (done.results, done.skipped) == ((), (1, 2))
    gate.set()
    for thread in [one for one in threading.enumerate() if one.name == "patient"]:
        thread.join(10)
    assert not patience.spent
    assert patience.each([1, 2], lambda item: item, Deadline.after(5)).results == ((1, 1), (2, 2))
