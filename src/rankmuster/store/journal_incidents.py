"""Incidents: one open an instance, each with a head for lists that is written with the event that changes it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, not_, select, update

from rankmuster.model.fault import Boundary, FaultClass
from rankmuster.model.incident import Event, EventKind, IncidentHead, OpenedBy, Opening, Outcome
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.store.errors import Refused
from rankmuster.store.journal_damage import kept, word
from rankmuster.store.journal_events import write_event
from rankmuster.store.journal_tables import incident_table, lease_table, use_table
from rankmuster.store.lease_clock import Moment, holds
from rankmuster.store.place import without_passwords
from rankmuster.store.plain import LATEST, sound
from rankmuster.store.write_runs import insert_new

_I = incident_table.c

_BOUNDS = Bounds(text=4_000, members=5_000)

AFTER_CLOSING = (EventKind.NOTED, EventKind.REOPENED)
"""What may still be written into an incident that is closed."""

_ATTEMPTS = 8
"""How often one that closes at this moment may be in the way."""


def open_one(connection: Connection, opening: Opening, by: str) -> tuple[str, bool]:
    """See `Journal.open_incident`. Raises Refused."""
    if not (opening.instance and 0 <= opening.at <= LATEST):
        raise Refused(f"no incident can be opened of the instance {opening.instance!r} at {opening.at}")
    instance = sound(opening.instance)
    still_open = select(_I.incident).where(_I.instance == instance, _I.closed_at.is_(None))
    for _ in range(_ATTEMPTS):
        found = connection.execute(still_open).first()
        if found is not None:
            return str(found[0]), False
        name = _new_id(opening.at)
        row = {
            "incident": name,
            "instance": instance,
            "incarnation": None if opening.incarnation is None else sound(opening.incarnation),
            "opened_at": float(opening.at),
            "opened_by": opening.by.value,
            "events": 1,
        }
        new = connection.execute(insert_new(connection, incident_table).returning(_I.id), row).first()
        if new is not None:
            write_event(connection, new[0], name, 1, _opened(opening, by))
            return name, True
    raise Refused(f"an incident of {opening.instance} could not be opened: others open and close them all the time")


def locked(connection: Connection, incident: str) -> Any:
    """The row of an incident that the caller's transaction writes to. Raises KeyError."""
    row = connection.execute(select(incident_table).where(_I.incident == incident).with_for_update()).first()
    if row is None:
        raise KeyError(incident)
    return row


def add(connection: Connection, row: Any, event: Event) -> Event:
    """The next event of an incident whose row is `locked`. Raises Refused."""
    closed = row.closed_at is not None
    if closed and event.kind not in AFTER_CLOSING:
        raise Refused(f"the incident {row.incident} is closed: {event.kind.value} cannot be written into it any more")
    changes = _head(event)
    if closed and event.kind is EventKind.REOPENED:
        other = select(_I.incident).where(_I.instance == row.instance, _I.closed_at.is_(None))
        if (found := connection.execute(other).first()) is not None:
            raise Refused(
                f"the incident {row.incident} cannot be reopened: {found[0]} of the same instance is open; go on there"
            )
        changes |= {"closed_at": None, "outcome": None}
    made = write_event(connection, row.id, row.incident, row.events + 1, event)
    connection.execute(update(incident_table).where(_I.id == row.id).values(events=row.events + 1, **changes))
    return made


def heads(
    connection: Connection, now: Moment, conditions: Iterable[ColumnElement[bool]], limit: int | None = None
) -> tuple[IncidentHead, ...]:
    """Newest first. Raises Damaged, NewerHistory."""
    lease = (lease_table.c.holder, lease_table.c.era, lease_table.c.until, lease_table.c.wall_until)
    query = (
        select(incident_table, *lease, lease_table.c.seconds)
        .outerjoin(lease_table, and_(lease_table.c.instance == _I.instance, _I.closed_at.is_(None)))
        .where(*conditions)
        .order_by(_I.opened_at.desc(), _I.id.desc())
        .limit(limit)
    )
    return tuple(_head_of(row, now) for row in connection.execute(query))


def old(connection: Connection, before: float) -> int:
    """How many `forget` would remove."""
    return int(connection.execute(select(func.count()).select_from(incident_table).where(_old(before))).scalar_one())


def forget(connection: Connection, before: float) -> int:
    """See `Journal.forget`."""
    gone = delete(incident_table).where(_old(before)).returning(_I.id)
    count = len(connection.execute(gone).all())
    there = exists().where(_I.incident == use_table.c.incident)
    connection.execute(delete(use_table).where(use_table.c.ended_at < before, not_(there)))
    return count


def _old(before: float) -> ColumnElement[bool]:
    if not math.isfinite(before):
        raise Refused(f"incidents cannot be removed by the time {before}")
    lasting = exists().where(use_table.c.incident == _I.incident, use_table.c.ended_at.is_(None))
    return and_(_I.closed_at.is_not(None), _I.closed_at < before, not_(lasting))


def _new_id(at: float) -> str:
    when = datetime.fromtimestamp(at, timezone.utc)
    return f"{when:%Y%m%d-%H%M%S}.{when.microsecond // 1000:03d}-{secrets.token_hex(3)}"


def _opened(opening: Opening, by: str) -> Event:
    data = to_plain(opening, _BOUNDS)
    if opening.metrics_url is not None:
        data["metrics_url"] = without_passwords(opening.metrics_url)
    return Event(kind=EventKind.OPENED, at=opening.at, note=opening.reason, by=by, data=data)


def _head(event: Event) -> dict[str, Any]:
    """What an event changes in the head of its incident. Raises Refused for a word that is none."""
    if event.kind is EventKind.CLOSED:
        return {"closed_at": float(event.at), "outcome": _said(Outcome, event, "outcome")}
    if event.kind is EventKind.DECIDED:
        return {"class": _said(FaultClass, event, "class"), "boundary": _said(Boundary, event, "boundary")}
    return {}


def _said(kind: Any, event: Event, key: str) -> str:
    value = event.data.get(key)
    try:
        return str(kind(value).value)
    except ValueError:
        raise Refused(f"{event.kind.value} cannot be written: its {key} is {str(value)[:60]!r}") from None


def _head_of(row: Any, now: Moment) -> IncidentHead:
    what = f"the incident {row.incident}"
    values = row._mapping
    with kept(what):
        return IncidentHead(
            id=row.incident,
            instance=row.instance,
            incarnation=row.incarnation,
            opened_at=float(row.opened_at),
            by=word(OpenedBy, row.opened_by, what),
            class_=None if values["class"] is None else word(FaultClass, values["class"], what),
            boundary=None if row.boundary is None else word(Boundary, row.boundary, what),
            closed_at=None if row.closed_at is None else float(row.closed_at),
            outcome=None if row.outcome is None else word(Outcome, row.outcome, what),
            lease=row.holder if row.holder and holds(row, now) else None,
        )
