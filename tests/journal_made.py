"""A journal's openings and events for tests, with only what the test is about said."""

from __future__ import annotations

from collections.abc import Sequence

from journal_contract import START, allow, closed, decided, opening
from rankmuster.model.incident import Event, EventKind, FleetView, Lease, Permit, UseKind
from rankmuster.store.journal import Journal

__all__ = ["START", "allow", "at_most", "begun", "closed", "decided", "finished", "held", "noted", "opening"]


def noted(note: str = "seen", at: float = START) -> Event:
    return Event(kind=EventKind.NOTED, at=at, by="runner-a", note=note)


def held(journal: Journal, instance: str = "llm-0", holder: str = "runner-a", seconds: float = 60.0) -> Lease:
    lease = journal.take_lease(instance, holder, seconds)
    assert lease is not None
    return lease


def begun(journal: Journal, instance: str = "llm-0", at: float = START) -> tuple[str, Lease]:
    """An open incident and the lease of its instance."""
    name, _ = journal.open_incident(opening(instance, at), "runner-a")
    return name, held(journal, instance)


def finished(journal: Journal, instance: str = "llm-0", at: float = START, fences: Sequence[str] = ()) -> str:
    """A closed one, rebuilt, ten seconds long."""
    name, lease = begun(journal, instance, at)
    wanted = [(UseKind.REBUILD, instance), *((UseKind.FENCE, node) for node in fences)]
    assert journal.reserve(name, lease, wanted, allow, 3600, at).allowed
    journal.append(name, lease, closed(at=at + 10))
    journal.release(lease)
    return name


def at_most(count: int) -> object:
    """A judge that lets so many rebuilds last at once."""

    def judge(view: FleetView) -> Permit:
        lasting = sum(one.kind is UseKind.REBUILD and one.ended_at is None for one in view.uses)
        return Permit(allowed=lasting < count, why=f"{lasting} last")

    return judge
