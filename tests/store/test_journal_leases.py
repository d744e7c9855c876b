"""What leases run by: no clock that is set forward or back gives one instance to two, or to nobody for hours."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from journal_made import begun, held, noted
from rankmuster.store.errors import LeaseLost
from rankmuster.store.journal import Journal
from rankmuster.store.lease_clock import LeaseClock, Moment, holds

LEASE = SimpleNamespace(era="boot-1", until=1_030.0, wall_until=5_030.0, seconds=30.0)
"""Of 30 s, given at second 1,000 after the host's start, when the wall clock said 5,000."""


@pytest.mark.parametrize(
    ("now", "lasts"),
    [
        (Moment("boot-1", 1_029.0, 5_029.0), True),
        (Moment("boot-1", 1_031.0, 5_031.0), False),
        (Moment("boot-1", 1_010.0, 9_999.0), True),  # the wall clock was set forward
        (Moment("boot-1", 1_010.0, 1.0), True),  # ... or back
        (Moment("boot-1", 1_031.0, 1.0), False),
        (Moment("boot-2", 5.0, 5_010.0), True),  # another host that shares the file, or one that starts very fast
        (Moment("boot-2", 60.0, 5_060.0), False),  # started again
        (Moment("boot-2", 60.0, 3.0), False),  # ... with a clock that has forgotten the time
    ],
)
def test_a_lease_lasts_for_its_seconds_whatever_the_wall_clock_says(now: Moment, lasts: bool) -> None:
    assert holds(LEASE, now) is lasts


def test_the_clock_of_a_journal_goes_on_and_is_the_same_for_all(url: str) -> None:
    with Journal.open(url) as journal, Journal.open(url) as other:
        with journal._reading("the time") as connection:
            first = LeaseClock().now(connection)
        with other._reading("the time") as connection:
            second = LeaseClock().now(connection)
        assert first.era == second.era
        assert first.steady <= second.steady
        assert abs(first.wall - time.time()) < 60


def test_a_lease_by_the_journals_own_clock(url: str) -> None:
    with Journal.open(url) as journal, Journal.open(url) as other:
        name, lease = begun(journal)
        assert other.take_lease("llm-0", "runner-b", 60) is None
        assert other.append(name, lease, noted()).sequence == 2
        short = journal.renew(lease, 0.001)
        time.sleep(0.01)
        with pytest.raises(LeaseLost, match="has run out or was given back"):
            journal.append(name, short, noted())
        new = held(other, holder="runner-b")
        assert new.token == lease.token + 1
        with pytest.raises(LeaseLost, match=r"is no longer its own: runner-b"):
            journal.renew(lease, 60)
        journal.release(lease)
        assert other.append(name, new, noted()).sequence == 3


def test_a_lease_of_another_instance_opens_nothing(url: str) -> None:
    with Journal.open(url) as journal:
        name, _ = begun(journal)
        other = held(journal, "llm-1")
        with pytest.raises(LeaseLost, match="is none of llm-0"):
            journal.append(name, other, noted())
        assert len(journal.events(name)) == 1
