"""The journal in memory, for simulations and tests: as `store.journal`, without a disk. Not for several threads."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from rankmuster.incident.journal import JournalError, LeaseLost
from rankmuster.model.fault import Boundary, FaultClass
from rankmuster.model.incident import (
    Breaker,
    Event,
    EventKind,
    FleetView,
    IncidentHead,
    Lease,
    Opening,
    Outcome,
    Permit,
    Use,
    UseKind,
)
from rankmuster.model.plain_json import Bounds, to_plain

BOUNDS = Bounds(text=4_000, members=5_000)

OPERATORS = (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED, EventKind.NOTED, EventKind.SEEN)
"""What is written without a lease."""

AFTER_CLOSING = (EventKind.NOTED, EventKind.REOPENED)
"""What may still be written into an incident that is closed."""


@dataclass(slots=True)
class _Kept:
    head: IncidentHead
    events: list[Event] = field(default_factory=list)


class MemoryJournal:
    """`clock`: what leases run by, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._open: dict[str, str] = {}
        self._in_order: list[tuple[float, str]] = []
        self._leases: dict[str, Lease] = {}
        self._tokens: dict[str, int] = {}
        self._uses: list[Use] = []
        self._breakers: list[Breaker] = []

    def open_incident(self, opening: Opening, by: str) -> tuple[str, bool]:
        there = self._open.get(opening.instance)
        if there is not None:
            return there, False
        name = f"{datetime.fromtimestamp(opening.at, timezone.utc):%Y%m%d-%H%M%S}-{len(self._kept) + 1:06d}"
        head = IncidentHead(
            id=name,
            instance=opening.instance,
            incarnation=opening.incarnation,
            opened_at=opening.at,
            by=opening.by,
        )
        event = Event(
            kind=EventKind.OPENED,
            at=opening.at,
            sequence=1,
            by=by,
            note=opening.reason,
            data=to_plain(opening, BOUNDS),
        )
        self._kept[name] = _Kept(head, [event])
        self._open[opening.instance] = name
        insort(self._in_order, (opening.at, name))
        return name, True

    def events(self, incident: str, after: int = 0) -> tuple[Event, ...]:
        return tuple(self._kept[incident].events[max(after, 0) :])

    def append(self, incident: str, lease: Lease, event: Event) -> Event:
        kept = self._kept[incident]
        self._must_hold(kept.head.instance, lease)
        return self._add(kept, event)

    def tell(self, incident: str, event: Event) -> Event:
        if event.kind not in OPERATORS:
            raise ValueError(f"{event.kind.value} is written by a runner, under its lease")
        return self._add(self._kept[incident], event)

    def take_lease(self, instance: str, holder: str, seconds: float) -> Lease | None:
        now = self._clock()
        held = self._leases.get(instance)
        if held is not None and held.holder != holder and held.until > now:
            return None
        token = self._tokens.get(instance, 0) + 1
        self._tokens[instance] = token
        lease = Lease(instance=instance, holder=holder, token=token, until=now + seconds)
        self._leases[instance] = lease
        return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        self._must_hold(lease.instance, lease)
        renewed = replace(lease, until=self._clock() + seconds)
        self._leases[lease.instance] = renewed
        return renewed

    def release(self, lease: Lease) -> None:
        held = self._leases.get(lease.instance)
        if held is not None and held.token == lease.token and held.holder == lease.holder:
            del self._leases[lease.instance]

    def incidents(
        self, *, instance: str | None = None, open_only: bool = False, limit: int | None = None
    ) -> tuple[IncidentHead, ...]:
        found = []
        for _, name in reversed(self._in_order):
            head = self._kept[name].head
            if (instance is not None and head.instance != instance) or (open_only and head.closed_at is not None):
                continue
            found.append(self._with_lease(head))
            if limit is not None and len(found) >= limit:
                break
        return tuple(found)

    def fleet(self, horizon: float, now: float) -> FleetView:
        since = now - horizon
        return FleetView(
            uses=tuple(one for one in self._uses if one.at >= since or one.ended_at is None or one.ended_at >= since),
            opened=tuple(
                self._kept[name].head
                for at, name in self._in_order
                if at >= since or self._kept[name].head.closed_at is None
            ),
            breaker=self.breaker(),
        )

    def reserve(
        self,
        incident: str,
        lease: Lease,
        wanted: Sequence[tuple[UseKind, str]],
        judge: Callable[[FleetView], Permit],
        horizon: float,
        now: float,
    ) -> Permit:
        self._must_hold(self._kept[incident].head.instance, lease)
        permit = judge(self.fleet(horizon, now))
        if permit.open_breaker is not None:
            self.open_breaker(permit.open_breaker, now)
        if permit.allowed:
            held = {(one.kind, one.subject) for one in self._uses if one.incident == incident and one.ended_at is None}
            for kind, subject in dict.fromkeys(wanted):
                if (kind, subject) not in held:
                    self._uses.append(Use(kind=kind, subject=subject, incident=incident, at=now))
        return permit

    def end_use(self, incident: str, kind: UseKind, subject: str, now: float) -> None:
        self._end(lambda one: one.incident == incident and one.kind is kind and one.subject == subject, now)

    def uses(self, incident: str) -> tuple[Use, ...]:
        return tuple(one for one in self._uses if one.incident == incident)

    def breaker(self) -> Breaker | None:
        return self._breakers[-1] if self._breakers else None

    def close_breaker(self, by: str, now: float) -> bool:
        newest = self.breaker()
        if newest is None or newest.closed_at is not None:
            return False
        self._breakers[-1] = replace(newest, closed_at=now, closed_by=by)
        return True

    def open_breaker(self, why: str, now: float) -> None:
        newest = self.breaker()
        if newest is None or newest.closed_at is not None:
            self._breakers.append(Breaker(opened_at=now, why=why))

    def _must_hold(self, instance: str, lease: Lease) -> None:
        held = self._leases.get(instance)
        if held is None or lease.instance != instance or (held.holder, held.token) != (lease.holder, lease.token):
            raise LeaseLost(f"{lease.holder} no longer has {instance}: {held.holder if held else 'nobody'} has it")
        if held.until <= self._clock():
            raise LeaseLost(f"the lease of {lease.holder} on {instance} has run out")

    def _add(self, kept: _Kept, event: Event) -> Event:
        head = kept.head
        if head.closed_at is not None and event.kind not in AFTER_CLOSING:
            raise JournalError(
                f"the incident {head.id} is closed: {event.kind.value} cannot be written into it any more"
            )
        if event.kind is EventKind.REOPENED and head.closed_at is not None:
            if head.instance in self._open:
                raise JournalError(f"{self._open[head.instance]} of the same instance is open; go on there")
            kept.head = replace(head, closed_at=None, outcome=None)
            self._open[head.instance] = head.id
        if event.kind is EventKind.CLOSED:
            kept.head = replace(head, closed_at=event.at, outcome=Outcome(event.data["outcome"]))
            del self._open[head.instance]
            self._end(lambda one: one.incident == head.id and one.kind is UseKind.REBUILD, event.at)
        if event.kind is EventKind.DECIDED:
            kept.head = replace(head, class_=FaultClass(event.data["class"]), boundary=Boundary(event.data["boundary"]))
        made = replace(event, sequence=len(kept.events) + 1)
        kept.events.append(made)
        return made

    def _end(self, which: Callable[[Use], bool], now: float) -> None:
        self._uses = [replace(one, ended_at=now) if one.ended_at is None and which(one) else one for one in self._uses]

    def _with_lease(self, head: IncidentHead) -> IncidentHead:
        held = self._leases.get(head.instance)
        if head.closed_at is not None or held is None or held.until <= self._clock():
            return head
        return replace(head, lease=held.holder)
