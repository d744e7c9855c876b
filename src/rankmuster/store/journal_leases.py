"""Leases: who may work on an instance, by holder and token, checked in the transaction of every write.

A row stays when its lease ends, so that the token of an instance only ever grows.
"""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection, select, update

from rankmuster.model.incident import Lease
from rankmuster.store.errors import LeaseLost, Refused
from rankmuster.store.journal_tables import lease_table
from rankmuster.store.lease_clock import LeaseClock, Moment, holds
from rankmuster.store.plain import sound
from rankmuster.store.write_runs import insert_new

_T = lease_table.c


def take(connection: Connection, clock: LeaseClock, instance: str, holder: str, seconds: float) -> Lease | None:
    """See `Journal.take_lease`. Raises Refused."""
    _must_last(seconds)
    name, holder = sound(instance), sound(holder)
    # there before it is locked: of two that come first, the second then waits for the first
    free = {"instance": name, "holder": "", "token": 0, "era": "", "until": 0.0, "wall_until": 0.0, "seconds": 0.0}
    row = _locked(connection, name)
    if row is None:
        connection.execute(insert_new(connection, lease_table), free)
        row = _locked(connection, name)
    now = clock.now(connection)
    if row.holder != holder and holds(row, now):
        return None
    token = row.token + 1
    connection.execute(
        update(lease_table).where(_T.instance == name).values(holder=holder, token=token, **_ends(now, seconds))
    )
    return Lease(instance=instance, holder=holder, token=token, until=now.steady + seconds)


def renew(connection: Connection, clock: LeaseClock, lease: Lease, seconds: float) -> Lease:
    """See `Journal.renew`. Raises LeaseLost, Refused."""
    _must_last(seconds)
    now = must_hold(connection, clock, lease, writes=True)
    connection.execute(update(lease_table).where(_T.instance == sound(lease.instance)).values(**_ends(now, seconds)))
    return Lease(instance=lease.instance, holder=lease.holder, token=lease.token, until=now.steady + seconds)


def release(connection: Connection, lease: Lease) -> None:
    """See `Journal.release`."""
    ours = (_T.instance == sound(lease.instance), _T.holder == sound(lease.holder), _T.token == lease.token)
    connection.execute(update(lease_table).where(*ours).values(until=0.0, wall_until=0.0, era=""))


def must_hold(connection: Connection, clock: LeaseClock, lease: Lease, *, writes: bool = False) -> Moment:
    """Raises LeaseLost where somebody else may work on the instance. Nobody can take the lease before the caller's
    transaction ends; the moment at which it was looked at."""
    row = _locked(connection, sound(lease.instance), shared=not writes)
    now = clock.now(connection)
    if row is None:
        raise LeaseLost(f"{lease.holder} has no lease of {lease.instance}: the journal has none of that instance")
    if (row.holder, row.token) != (sound(lease.holder), lease.token):
        raise LeaseLost(
            f"the lease of {lease.instance} that {lease.holder} had (token {lease.token}) is no longer its own: "
            f"{row.holder} has had it since (token {row.token})"
        )
    if not holds(row, now):
        raise LeaseLost(
            f"the lease of {lease.instance} that {lease.holder} had (token {lease.token}) has run out or was given "
            "back, and another runner may take it"
        )
    return now


def _locked(connection: Connection, instance: str, *, shared: bool = False) -> Any:
    return connection.execute(select(lease_table).where(_T.instance == instance).with_for_update(read=shared)).first()


def _must_last(seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds > 0):
        raise Refused(f"a lease of {seconds} seconds cannot be given")


def _ends(now: Moment, seconds: float) -> dict[str, Any]:
    return {
        "era": now.era,
        "until": now.steady + seconds,
        "wall_until": now.wall + seconds,
        "seconds": float(seconds),
    }
