"""A journal that was changed by hand, damaged, or written by a newer program decides nothing: it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from journal_made import START, allow, begun, decided, finished, noted
from rankmuster.model.incident import Lease, UseKind
from rankmuster.store.errors import Damaged, HistoryError, NewerHistory
from rankmuster.store.journal import Journal
from rankmuster.store.journal_events import _digest


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    with Journal.open(url) as opened:
        yield opened


def change(journal: Journal, statement: str, **values: object) -> None:
    with journal._writing("changing by hand") as connection:
        connection.execute(text(statement), values)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rankmuster_incident_event SET note = 'nothing happened' WHERE sequence = 2",
        "UPDATE rankmuster_incident_event SET kind = 'aborted' WHERE sequence = 2",
        "UPDATE rankmuster_incident_event SET at = at + 1 WHERE sequence = 3",
        "UPDATE rankmuster_incident_event SET data = '{}' WHERE sequence = 1",
        "UPDATE rankmuster_incident_event SET data = '{\"a\": ' WHERE sequence = 2",
        "UPDATE rankmuster_incident_event SET digest = '' WHERE sequence = 2",
        "DELETE FROM rankmuster_incident_event WHERE sequence = 2",
        "DELETE FROM rankmuster_incident_event WHERE sequence = 3",
        "DELETE FROM rankmuster_incident_event",
        "UPDATE rankmuster_incident SET events = 2",
    ],
)
def test_events_that_are_not_as_they_were_written_are_found(journal: Journal, statement: str) -> None:
    name, lease = begun(journal)
    journal.append(name, lease, noted("one"))
    journal.append(name, lease, noted("two"))
    change(journal, statement)
    with pytest.raises(Damaged, match=rf"{name} in the journal .*restore the journal from a copy, or name another"):
        journal.events(name)


def test_a_step_of_a_newer_program_is_named_as_that(journal: Journal) -> None:
    name, lease = begun(journal)
    journal.append(name, lease, noted("one"))
    row = {"kind": "teleported", "at": START, "step": None, "action": None, "ending": None}
    row |= {"note": "", "by": "", "data": "{}"}
    change(
        journal,
        "UPDATE rankmuster_incident_event SET kind = 'teleported', at = :at, note = '', \"by\" = '', data = '{}', "
        "digest = :digest WHERE sequence = 2",
        at=START,
        digest=_digest(name, 2, row),
    )
    with pytest.raises(NewerHistory, match=r"event 2 of the incident .* says 'teleported'.*use the newer program"):
        journal.events(name)


def listing(journal: Journal, _name: str, _lease: Lease) -> object:
    return journal.incidents()


def fleet(journal: Journal, _name: str, _lease: Lease) -> object:
    return journal.fleet(3600, START)


def uses(journal: Journal, name: str, _lease: Lease) -> object:
    return journal.uses(name)


def reserving(journal: Journal, name: str, lease: Lease) -> object:
    return journal.reserve(name, lease, [(UseKind.REBUILD, "llm-0")], allow, 3600, START)


@pytest.mark.parametrize(
    ("statement", "readers"),
    [
        ("UPDATE rankmuster_incident SET class = 'gremlins'", (listing, fleet, reserving)),
        ("UPDATE rankmuster_incident SET boundary = 'galaxy'", (listing, fleet, reserving)),
        ("UPDATE rankmuster_incident SET opened_by = 'nobody'", (listing, fleet)),
        ("UPDATE rankmuster_use SET kind = 'bribe'", (fleet, uses, reserving)),
    ],
)
def test_a_word_that_nobody_knows_is_said_by_whatever_reads_it(
    journal: Journal, statement: str, readers: tuple[Callable[[Journal, str, Lease], object], ...]
) -> None:
    name, lease = begun(journal)
    journal.append(name, lease, decided())
    reserving(journal, name, lease)
    change(journal, statement)
    for read in readers:
        with pytest.raises(HistoryError, match="a newer rankmuster wrote it, or it was changed by hand"):
            read(journal, name, lease)


def test_what_is_damaged_in_one_incident_leaves_the_others_alone(journal: Journal) -> None:
    broken, whole = finished(journal, "llm-0"), finished(journal, "llm-1")
    change(journal, "DELETE FROM rankmuster_incident_event WHERE incident_id = 1 AND sequence = 1")
    with pytest.raises(Damaged, match=f"{broken} in the journal lacks its event 1"):
        journal.events(broken)
    assert len(journal.events(whole)) == 2
    assert len(journal.incidents()) == 2
