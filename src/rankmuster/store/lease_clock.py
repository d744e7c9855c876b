"""What leases run by: a clock that nobody can set, and the wall clock where that one says nothing.

A lease that ran by the wall clock would end early for one whose clock was set forward, and last for hours after a
clock was set back. So in a file, which belongs to one host, leases run by the seconds since that host was started
(CLOCK_BOOTTIME, which goes on while it sleeps): the same for all of its processes, containers too. In another era (the
host was started again: another boot_id; or a container has a time namespace of its own) those seconds mean nothing.
Whoever held the lease is then gone, most likely; the wall clock is asked all the same.

On PostgreSQL they run by the server's clock alone, which is the same for everybody. If that one is set forward, a lease
ends early for its holder; set back, it lasts longer for the others. Every write therefore checks holder and token in
its own transaction: whatever clocks do, what an older holder writes is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_NAMESPACE = "/proc/self/ns/time"

_SERVER = text("SELECT extract(epoch FROM clock_timestamp())")


@dataclass(frozen=True, slots=True)
class Moment:
    """`steady`: seconds that only mean something within `era`; `wall`: unix seconds."""

    era: str
    steady: float
    wall: float


@dataclass(frozen=True, slots=True)
class LeaseClock:
    """`given`: seconds to run by instead, in simulations and tests; whoever shares the journal gives the same."""

    given: Callable[[], float] | None = None

    def now(self, connection: Connection) -> Moment:
        """Raises what the database raises."""
        if self.given is not None:
            at = self.given()
            return Moment("given", at, at)
        if connection.dialect.name == "postgresql":
            at = float(connection.execute(_SERVER).scalar_one())
            return Moment("server", at, at)
        wall = time.time()
        era = _era()
        if era is None:  # not Linux
            return Moment("wall", wall, wall)
        return Moment(era, time.clock_gettime(time.CLOCK_BOOTTIME), wall)


def holds(row: Any, now: Moment) -> bool:
    """Whether a lease (`era`, `until`, `wall_until`, `seconds`) has not run out.

    One of another era that ends later than it could last was given out before the wall clock was set back.
    """
    if row.era == now.era:
        return bool(row.until > now.steady)
    return bool(now.wall < row.wall_until <= now.wall + row.seconds)


def _era() -> str | None:
    """What CLOCK_BOOTTIME means the same in; None where it cannot be told."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return None
    with suppress(OSError):  # before Linux 5.6
        boot += " " + os.readlink(_NAMESPACE)
    return boot
