"""One clock: stamps without year or zone are anchored to evidence that has both, or stay out of comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from rankmuster.model.stamp import Stamp, StampKind

ZONE_STEP = 900.0
"""Time zones differ by multiples of a quarter of an hour."""

MAX_ZONE = 14 * 3600.0
"""No zone is further from UTC."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`zone`: seconds to add to a local time to reach UTC, None unknown. `reference`: a unix time near the incident.

    `how`: what anchored the zone.
    """

    reference: float | None
    zone: float | None
    how: str

    def unix(self, stamp: Stamp | None) -> float | None:
        """Unix seconds of `stamp`, or None where it cannot be anchored."""
        if stamp is None:
            return None
        if stamp.kind is StampKind.UNIX:
            return stamp.seconds
        if stamp.kind is StampKind.UPTIME or self.zone is None:
            return None
        local = self.local(stamp)
        return None if local is None else local + self.zone

    def local(self, stamp: Stamp) -> float | None:
        """Local seconds with a year, the one that comes nearest to the reference."""
        if stamp.kind is StampKind.LOCAL:
            return stamp.seconds
        if stamp.kind is not StampKind.LOCAL_NO_YEAR or self.reference is None:
            return None
        return _with_year(stamp.seconds, self.reference)


def _with_year(seconds: float, reference: float) -> float | None:
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    near = datetime.fromtimestamp(reference, tz=timezone.utc).year
    best: float | None = None
    for year in (near - 1, near, near + 1):
        try:
            candidate = moment.replace(year=year).timestamp()
        except ValueError:  # 29 February of a common year
            continue
        if best is None or abs(candidate - reference) < abs(best - reference):
            best = candidate
    return best


def written(stamp: Stamp) -> str:
    """A time as the evidence has it: `2026-03-02 08:14:54 of its host's clock`, `44930 s after its host's boot`."""
    if stamp.kind is StampKind.UPTIME:
        return f"{stamp.seconds:.0f} s after its host's boot"
    shape = "%m-%d %H:%M:%S" if stamp.kind is StampKind.LOCAL_NO_YEAR else "%Y-%m-%d %H:%M:%S"
    text = datetime.fromtimestamp(stamp.seconds, tz=timezone.utc).strftime(shape)
    return f"{text} UTC" if stamp.kind is StampKind.UNIX else f"{text} of its host's clock"


def anchor(
    known: Iterable[float],
    pairs: Iterable[tuple[Stamp, float, float]],
) -> Clock:
    """The clock for one bundle.

    `known`: unix times of any evidence. `pairs`: (local stamp, earliest, latest unix time at which it was written);
    each pair votes for the zones that put the stamp into its range.
    """
    times = sorted(known)
    reference = times[len(times) // 2] if times else None
    bare = Clock(reference, 0.0, "none")
    votes: dict[float, int] = {}
    for stamp, earliest, latest in pairs:
        local = bare.local(stamp)
        if local is None:
            continue
        low, high = earliest - local, latest - local
        step = -(-low // ZONE_STEP) * ZONE_STEP
        if step <= high and abs(step) <= MAX_ZONE:
            votes[step] = votes.get(step, 0) + 1
    if votes:
        zone = max(votes, key=lambda offset: (votes[offset], -abs(offset)))
        return Clock(reference, zone, "anchored to evidence with both times")
    return Clock(reference, None, "no evidence carries both a local and a universal time")
