"""The journal of incidents, as the runbook sees it (`incident.journal.Journal`): one SQLite file, or PostgreSQL.

What a method has returned is on the disk, also after a power cut. Every method raises HistoryError with what was tried,
on which journal, what came back and what to do. Nothing was written then, except where a server's answer was lost on
its way: whoever tries again looks first whether it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from sqlalchemy import Connection, Engine, select

from rankmuster.model.incident import (
    Breaker,
    Event,
    EventKind,
    FleetView,
    IncidentHead,
    Lease,
    Opening,
    Permit,
    Use,
    UseKind,
)
from rankmuster.store import journal_incidents, journal_leases, journal_uses
from rankmuster.store.engine import reading, writing
from rankmuster.store.errors import LeaseLost
from rankmuster.store.journal_events import read_events
from rankmuster.store.journal_tables import incident_table
from rankmuster.store.kind import JOURNAL
from rankmuster.store.lease_clock import LeaseClock
from rankmuster.store.place import Place, place_of
from rankmuster.store.plain import sound
from rankmuster.store.ready import make_file, ready, upgrade

OPERATORS = (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED, EventKind.NOTED, EventKind.SEEN)
"""What is written without a lease."""


class Journal:
    """An open journal. A context manager; may be used by several threads, not across a fork."""

    def __init__(self, engine: Engine, place: Place, clock: LeaseClock) -> None:
        self._engine = engine
        self._place = place
        self._clock = clock

    @classmethod
    def open(cls, url: str, *, create: bool = True, clock: Callable[[], float] | None = None) -> Journal:
        """`url`: a file's path or `sqlite:///` URL, or `postgresql://user@host/database`. `create`: make it where
        there is none (Unreachable otherwise). `clock`: what leases run by, for simulations and tests; None:
        `store.lease_clock`. An older SQLite file is brought up to date; a PostgreSQL database only where it is empty
        (OlderHistory otherwise)."""
        place = place_of(url, JOURNAL)
        if create:
            make_file(place)
        return cls(ready(place, create=create), place, LeaseClock(clock))

    @classmethod
    def upgrade(cls, url: str) -> tuple[str | None, str]:
        """As `History.upgrade`."""
        return upgrade(place_of(url, JOURNAL))

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._place.name

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends its connections; may be called twice."""
        self._engine.dispose()

    # -- incidents and their events ------------------------------------------------------------------------------------

    def open_incident(self, opening: Opening, by: str) -> tuple[str, bool]:
        """(its id, whether it is new). Where one of that instance is open, it is that one. The id sorts by time, and
        the first event (OPENED) is written with it. Raises Refused for a time or name that is none."""
        with self._writing(f"opening an incident of {opening.instance}") as connection:
            return journal_incidents.open_one(connection, opening, by)

    def events(self, incident: str, after: int = 0) -> tuple[Event, ...]:
        """Those with a greater `sequence` than `after`, in order. Raises KeyError for an incident that is not there,
        Damaged where one lacks or says something else than it did."""
        columns = (incident_table.c.id, incident_table.c.events)
        with self._reading(f"reading the incident {incident}") as connection:
            row = connection.execute(select(*columns).where(incident_table.c.incident == sound(incident))).first()
            if row is None:
                raise KeyError(incident)
            return read_events(connection, row[0], incident, row[1], after)

    def append(self, incident: str, lease: Lease, event: Event) -> Event:
        """Writes it durably and gives it as it will be read, with its sequence. CLOSED closes the incident and ends its
        rebuilds; DECIDED keeps class and boundary in its head.

        Raises LeaseLost where the lease is no longer this one or has run out, KeyError, Refused where the incident is
        closed.
        """
        with self._writing(f"writing {event.kind.value} into the incident {incident}") as connection:
            row = journal_incidents.locked(connection, sound(incident))
            self._must_be_of(row.instance, lease, incident)
            journal_leases.must_hold(connection, self._clock, lease)
            made = journal_incidents.add(connection, row, event)
            if event.kind is EventKind.CLOSED:
                journal_uses.end_rebuilds(connection, row.incident, event.at)
            return made

    def tell(self, incident: str, event: Event) -> Event:
        """The same for an operator, who needs no lease: `OPERATORS` only (ValueError). REOPENED opens one again that
        was closed. Raises KeyError; Refused where the incident is closed, or another one of its instance is open."""
        if event.kind not in OPERATORS:
            raise ValueError(f"{event.kind.value} is written by whoever has the lease, and by nobody else")
        with self._writing(f"writing {event.kind.value} into the incident {incident}") as connection:
            return journal_incidents.add(connection, journal_incidents.locked(connection, sound(incident)), event)

    def incidents(
        self, *, instance: str | None = None, open_only: bool = False, limit: int | None = None
    ) -> tuple[IncidentHead, ...]:
        """Newest first."""
        conditions = [] if instance is None else [incident_table.c.instance == sound(instance)]
        if open_only:
            conditions.append(incident_table.c.closed_at.is_(None))
        with self._reading("listing incidents") as connection:
            return journal_incidents.heads(connection, self._clock.now(connection), conditions, limit)

    def forget(self, before: float, *, dry: bool = False) -> int:
        """Removes incidents that were closed before that time (unix seconds), with their events; how many. Open ones
        stay, and those of which a node is still fenced. `dry`: they are only counted."""
        if dry:
            with self._reading("counting old incidents") as connection:
                return journal_incidents.old(connection, before)
        with self._writing("removing old incidents") as connection:
            return journal_incidents.forget(connection, before)

    # -- leases --------------------------------------------------------------------------------------------------------

    def take_lease(self, instance: str, holder: str, seconds: float) -> Lease | None:
        """None where another holder has it. The same holder gets it again, with a greater token."""
        with self._writing(f"taking the lease of {instance}") as connection:
            return journal_leases.take(connection, self._clock, instance, holder, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Raises LeaseLost."""
        with self._writing(f"renewing the lease of {lease.instance}") as connection:
            return journal_leases.renew(connection, self._clock, lease, seconds)

    def release(self, lease: Lease) -> None:
        """Gives it back; nothing happens where it was lost."""
        with self._writing(f"giving the lease of {lease.instance} back") as connection:
            journal_leases.release(connection, lease)

    # -- limits --------------------------------------------------------------------------------------------------------

    def fleet(self, horizon: float, now: float) -> FleetView:
        """What happened since `now - horizon`, and what still lasts."""
        with self._reading("looking at the fleet") as connection:
            return journal_uses.view(connection, self._clock.now(connection), horizon, now)

    def reserve(
        self,
        incident: str,
        lease: Lease,
        wanted: Sequence[tuple[UseKind, str]],
        judge: Callable[[FleetView], Permit],
        horizon: float,
        now: float,
    ) -> Permit:
        """Asks `judge` and notes what it allowed in one transaction that no other can come between. What this incident
        has reserved already is not counted twice. Opens the breaker where the permit says so. Raises LeaseLost,
        KeyError."""
        with self._writing(f"reserving for the incident {incident}") as connection:
            journal_uses.alone(connection)
            row = journal_incidents.locked(connection, sound(incident))
            self._must_be_of(row.instance, lease, incident)
            moment = journal_leases.must_hold(connection, self._clock, lease)
            return journal_uses.reserve(connection, moment, row.incident, wanted, judge, horizon, now)

    def end_use(self, incident: str, kind: UseKind, subject: str, now: float) -> None:
        """A rebuild is over, a fence lifted."""
        with self._writing(f"ending a {kind.value} of the incident {incident}") as connection:
            journal_uses.end_use(connection, sound(incident), kind, subject, now)

    def uses(self, incident: str) -> tuple[Use, ...]:
        """Oldest first."""
        with self._reading(f"reading what the incident {incident} uses") as connection:
            return journal_uses.uses_of(connection, sound(incident))

    def breaker(self) -> Breaker | None:
        """The newest, also where it is closed."""
        with self._reading("reading the circuit breaker") as connection:
            return journal_uses.newest_breaker(connection)

    def close_breaker(self, by: str, now: float) -> bool:
        """Whether one was open."""
        with self._writing("closing the circuit breaker") as connection:
            journal_uses.alone(connection)
            return journal_uses.close_breaker(connection, by, now)

    def open_breaker(self, why: str, now: float) -> None:
        """By an operator; nothing happens where it is open."""
        with self._writing("opening the circuit breaker") as connection:
            journal_uses.alone(connection)
            journal_uses.open_breaker(connection, why, now)

    def _must_be_of(self, instance: str, lease: Lease, incident: str) -> None:
        if sound(lease.instance) != instance:
            raise LeaseLost(f"the lease of {lease.instance} is none of {instance}, whose incident {incident} is")

    def _reading(self, doing: str) -> AbstractContextManager[Connection]:
        return reading(self._engine, self._place, doing)

    def _writing(self, doing: str) -> AbstractContextManager[Connection]:
        return writing(self._engine, self._place, doing)
