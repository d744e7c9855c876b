"""What the runbook needs of a journal: `store.journal.Journal` is one, `incident.memory_journal` one for simulations.

Every write is one transaction. Times come from the caller; leases run by the journal's own clock (a database server's,
where several hosts use one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rankmuster.model.incident import (
    Breaker,
    Event,
    FleetView,
    IncidentHead,
    Lease,
    Opening,
    Permit,
    Use,
    UseKind,
)
from rankmuster.store.errors import HistoryError, LeaseLost

JournalError = HistoryError
"""It could not be read or written; `store.journal` raises subclasses."""

__all__ = ["Journal", "JournalError", "LeaseLost"]


class Journal(Protocol):
    """Instances are told apart by name; at most one incident of an instance is open."""

    def open_incident(self, opening: Opening, by: str) -> tuple[str, bool]:
        """(its id, whether it is new). Where one of that instance is open, it is that one. The id sorts by time, and
        the first event (OPENED) is written with it."""
        ...

    def events(self, incident: str, after: int = 0) -> tuple[Event, ...]:
        """Those with a greater `sequence` than `after`, in order. Raises KeyError for an incident that is not there."""
        ...

    def append(self, incident: str, lease: Lease, event: Event) -> Event:
        """Writes it durably and gives its sequence. Raises LeaseLost where the lease is no longer this one or has run
        out. CLOSED closes the incident; DECIDED keeps class and boundary in its head."""
        ...

    def tell(self, incident: str, event: Event) -> Event:
        """The same for an operator, who needs no lease: APPROVED, ABORTED, REOPENED, NOTED, SEEN only (ValueError)."""
        ...

    def take_lease(self, instance: str, holder: str, seconds: float) -> Lease | None:
        """None where another holder has it. The same holder gets it again, with a greater token."""
        ...

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Raises LeaseLost."""
        ...

    def release(self, lease: Lease) -> None:
        """Gives it back; nothing happens where it was lost."""
        ...

    def incidents(
        self, *, instance: str | None = None, open_only: bool = False, limit: int | None = None
    ) -> tuple[IncidentHead, ...]:
        """Newest first."""
        ...

    def fleet(self, horizon: float, now: float) -> FleetView:
        """What happened since `now - horizon`, and what still lasts."""
        ...

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
        has reserved already is not counted twice. Opens the breaker where the permit says so. Raises LeaseLost."""
        ...

    def end_use(self, incident: str, kind: UseKind, subject: str, now: float) -> None:
        """A rebuild is over, a fence lifted."""
        ...

    def uses(self, incident: str) -> tuple[Use, ...]: ...

    def breaker(self) -> Breaker | None:
        """The newest, also where it is closed."""
        ...

    def close_breaker(self, by: str, now: float) -> bool:
        """Whether one was open."""
        ...

    def open_breaker(self, why: str, now: float) -> None:
        """By an operator; nothing happens where it is open."""
        ...
