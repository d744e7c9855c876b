"""What leases run by: a clock that nobody can set, and the wall clock where that one says nothing.

A lease that ran by the wall clock would end early for one whose clock was set forward, and last for hours after a
clock was set back. So in a file, which belongs to one host, leases run by the seconds since that host was started
(CLOCK_BOOTTIME, which goes on while it sleeps): the same for all of its processes, containers too. Where the host was
started again since (another era: its boot_id), whoever held a lease is gone; but because that may also be another host
that shares the file, the wall clock is asked besides. On PostgreSQL they run by the server's clock alone, which is the
same for everybody; if that one is set forward, a lease ends early for its holder, which is why every write checks
holder and token in its own transaction: two never write, whatever clocks do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

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
        return Moment(_boot(), _since_boot(), time.time())


def holds(row: Any, now: Moment) -> bool:
    """Whether a lease (`era`, `until`, `wall_until`, `seconds`) has not run out.

    One of another era that ends later than it could last was given out before the wall clock was set back.
    """
    if row.era == now.era:
        return bool(row.until > now.steady)
    return bool(now.wall < row.wall_until <= now.wall + row.seconds)


def _boot() -> str:
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return "unknown"


def _since_boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
