"""Work that never ends is left behind, and what ends in time is kept."""

from __future__ import annotations

import threading
import time

import pytest

from rankmuster.collect.bounded import MAX_AT_ONCE, Late, all_within, within
from rankmuster.collect.deadline import Deadline


def test_what_never_ends_costs_the_deadline_and_nothing_else() -> None:
    never = threading.Event()
    begun = time.monotonic()
    try:
        found = all_within(Deadline.after(0.2), [lambda: 1, lambda: never.wait(60), lambda: 3])
    finally:
        never.set()
    assert time.monotonic() - begun < 20
    assert (found[0], found[2]) == (1, 3)
    assert isinstance(found[1], Late)


def test_more_works_than_threads() -> None:
    assert all_within(Deadline.after(20), [lambda n=n: n for n in range(3 * MAX_AT_ONCE)]) == list(
        range(3 * MAX_AT_ONCE)
    )


def test_what_it_raises_is_raised() -> None:
    def fails() -> None:
        raise PermissionError("not yours")

    with pytest.raises(PermissionError, match="not yours"):
        within(20, fails)


def test_no_time_at_all() -> None:
    never = threading.Event()
    try:
        with pytest.raises(Late):
            within(0, lambda: never.wait(60))
    finally:
        never.set()
