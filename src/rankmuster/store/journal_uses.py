"""What limits count (rebuilds, fences) and the circuit breaker: judged and noted in one transaction at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, or_, select, text, update

from rankmuster.model.incident import Breaker, FleetView, Permit, Use, UseKind
from rankmuster.store.errors import Refused
from rankmuster.store.journal_damage import kept, word
from rankmuster.store.journal_incidents import heads
from rankmuster.store.journal_tables import breaker_table, incident_table, use_table
from rankmuster.store.lease_clock import Moment
from rankmuster.store.plain import sound

_U, _B = use_table.c, breaker_table.c

_FLEET = 0x72616E6B6C696D69  # "ranklimi"; the number of PostgreSQL's advisory lock


def alone(connection: Connection) -> None:
    """No other transaction of the fleet judges or notes until the caller's ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _FLEET})


def reserve(
    connection: Connection,
    moment: Moment,
    incident: str,
    wanted: Sequence[tuple[UseKind, str]],
    judge: Callable[[FleetView], Permit],
    horizon: float,
    now: float,
) -> Permit:
    """See `Journal.reserve`; the caller is `alone`, and its lease was looked at."""
    permit = judge(view(connection, moment, horizon, now))
    if permit.open_breaker is not None:
        open_breaker(connection, permit.open_breaker, now)
    if permit.allowed:
        held = {(one.kind, one.subject) for one in uses_of(connection, incident) if one.ended_at is None}
        new = [(kind, sound(subject)) for kind, subject in dict.fromkeys(wanted)]
        rows = [
            {"kind": kind.value, "subject": subject, "incident": incident, "at": _time(now)}
            for kind, subject in new
            if (kind, subject) not in held
        ]
        if rows:
            connection.execute(insert(use_table), rows)
    return permit


def view(connection: Connection, moment: Moment, horizon: float, now: float) -> FleetView:
    """See `Journal.fleet`. Raises Damaged, NewerHistory."""
    since = _time(now - horizon)
    counted = or_(_U.at >= since, _U.ended_at.is_(None), _U.ended_at >= since)
    opened = or_(incident_table.c.opened_at >= since, incident_table.c.closed_at.is_(None))
    return FleetView(
        uses=_uses(connection, counted),
        opened=heads(connection, moment, [opened])[::-1],
        breaker=newest_breaker(connection),
    )


def uses_of(connection: Connection, incident: str) -> tuple[Use, ...]:
    """See `Journal.uses`."""
    return _uses(connection, _U.incident == incident)


def end_use(connection: Connection, incident: str, kind: UseKind, subject: str, now: float) -> None:
    """See `Journal.end_use`."""
    lasting = (_U.incident == incident, _U.kind == kind.value, _U.subject == sound(subject), _U.ended_at.is_(None))
    connection.execute(update(use_table).where(*lasting).values(ended_at=_time(now)))


def end_rebuilds(connection: Connection, incident: str, now: float) -> None:
    """A rebuild is over with its incident, also where its runner died before it could say so."""
    lasting = (_U.incident == incident, _U.kind == UseKind.REBUILD.value, _U.ended_at.is_(None))
    connection.execute(update(use_table).where(*lasting).values(ended_at=_time(now)))


def newest_breaker(connection: Connection) -> Breaker | None:
    """See `Journal.breaker`. Raises Damaged."""
    row = connection.execute(select(breaker_table).order_by(_B.id.desc()).limit(1)).first()
    if row is None:
        return None
    with kept("the circuit breaker"):
        return Breaker(
            opened_at=float(row.opened_at),
            why=row.why,
            closed_at=None if row.closed_at is None else float(row.closed_at),
            closed_by=row.closed_by,
        )


def open_breaker(connection: Connection, why: str, now: float) -> None:
    """See `Journal.open_breaker`; the caller is `alone`."""
    newest = newest_breaker(connection)
    if newest is None or newest.closed_at is not None:
        connection.execute(insert(breaker_table), {"opened_at": _time(now), "why": sound(why), "closed_by": ""})


def close_breaker(connection: Connection, by: str, now: float) -> bool:
    """See `Journal.close_breaker`; the caller is `alone`."""
    values = {"closed_at": _time(now), "closed_by": sound(by)}
    return connection.execute(update(breaker_table).where(_B.closed_at.is_(None)).values(**values)).rowcount > 0


def _uses(connection: Connection, condition: Any) -> tuple[Use, ...]:
    rows = connection.execute(select(use_table).where(condition).order_by(_U.at, _U.id)).all()
    return tuple(_use(row) for row in rows)


def _use(row: Any) -> Use:
    what = f"what the incident {row.incident} has reserved"
    with kept(what):
        return Use(
            kind=word(UseKind, row.kind, what),
            subject=row.subject,
            incident=row.incident,
            at=float(row.at),
            ended_at=None if row.ended_at is None else float(row.ended_at),
        )


def _time(at: float) -> float:
    if not math.isfinite(at):
        raise Refused(f"the journal cannot note the time {at}")
    return float(at)
