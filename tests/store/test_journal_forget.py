"""Old incidents can be removed: never one that is open, or whose fence still stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from journal_made import START, begun, finished
from rankmuster.model.incident import UseKind
from rankmuster.store.errors import Refused
from rankmuster.store.journal import Journal

DAY = 86_400.0


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    with Journal.open(url) as opened:
        yield opened


def test_closed_ones_of_before_are_removed_with_all_that_belongs_to_them(journal: Journal) -> None:
    old = finished(journal, "llm-0", START - 9 * DAY)
    still_open, _ = begun(journal, "llm-1", START - 8 * DAY)
    fenced = finished(journal, "llm-2", START - 7 * DAY, fences=["node-7"])
    new = finished(journal, "llm-3", START)
    assert journal.forget(START - DAY) == 1
    assert [one.id for one in journal.incidents()] == [new, fenced, still_open]
    with pytest.raises(KeyError):
        journal.events(old)
    assert journal.uses(old) == ()
    assert [one.subject for one in journal.uses(fenced)] == ["llm-2", "node-7"]
    journal.end_use(fenced, UseKind.FENCE, "node-7", START)
    assert journal.forget(START - DAY) == 1
    assert journal.forget(START - DAY) == 0
    assert [one.id for one in journal.incidents()] == [new, still_open]
    assert len(journal.events(still_open)) == 1


def test_no_time_removes_nothing(journal: Journal) -> None:
    finished(journal)
    with pytest.raises(Refused):
        journal.forget(float("nan"))
    assert len(journal.incidents()) == 1
