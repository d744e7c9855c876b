"""Two sets of Flight Recorder dumps of one job, compared: what an earlier one says of the later one.

Ranks are global and ascending.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Since(str, Enum):
    """What an earlier set of dumps says of the later one."""

    WENT_ON = "went on"  # every rank: the job moves
    STOPPED_SINCE = "stopped since"  # it moved after the earlier set, and does not in the later one
    STANDS = "stands"  # nobody enqueued or finished anything
    TOO_CLOSE = "too close"  # every rank went on, for so short a time that it may have been its last
    UNTOLD = "untold"  # every rank went on, and nothing tells whether the later set was taken in motion
    MIXED = "mixed"
    NOT_EARLIER = "not earlier"
    OTHER_RUN = "another run"
    NO_DUMPS = "no dumps"


@dataclass(frozen=True, slots=True)
class Between:
    """The two sets compared. `believed`: it was weighed; else it is of no use, and `note` says why.

    `queued`: enqueued more, while what they stand at is the same. `drained`: finished some, and enqueued nothing.
    """

    since: Since
    note: str
    went_on: tuple[int, ...] = ()
    stood: tuple[int, ...] = ()
    queued: tuple[int, ...] = ()
    drained: tuple[int, ...] = ()
    uncompared: tuple[int, ...] = ()  # no dump in one of the sets
    strangers: tuple[int, ...] = ()  # ranks whose earlier dump is not believed
    seconds: float | None = None  # between the newest stamps of the two sets

    @property
    def believed(self) -> bool:
        return self.since not in (Since.NOT_EARLIER, Since.OTHER_RUN, Since.NO_DUMPS)

    @property
    def moving(self) -> frozenset[int]:
        """Ranks whose outstanding operations are the tail of a moving job."""
        return frozenset(self.went_on) if self.since is Since.WENT_ON else frozenset()
