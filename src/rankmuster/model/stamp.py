"""Times as the evidence writes them: few lines of a failing machine carry year and zone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StampKind(str, Enum):
    """How much of the time is known."""

    UNIX = "unix"  # seconds since the epoch, UTC
    LOCAL = "local"  # date and time of day without zone
    LOCAL_NO_YEAR = "local_no_year"  # month, day and time of day only (glog, syslog, vLLM)
    UPTIME = "uptime"  # seconds since boot (dmesg)


YEARLESS = 2000
"""The leap year that stands in for an unknown one, so that 29 February has a place."""


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """A time as written.

    `seconds`: unix seconds for UNIX; for LOCAL the same computed as if the zone were UTC; for LOCAL_NO_YEAR the same
    in the year `YEARLESS`; seconds since boot for UPTIME. Within one kind and one host stamps are ordered.
    """

    seconds: float
    kind: StampKind

    @property
    def unix_seconds(self) -> float | None:
        """Seconds since the epoch, None for a stamp that needs an anchor."""
        return self.seconds if self.kind is StampKind.UNIX else None


def unix(seconds: float) -> Stamp:
    """A stamp that needs no anchor."""
    return Stamp(seconds, StampKind.UNIX)
