"""What a state file comes to, in one number: the exit status of `rankmuster top --once`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from rankmuster.model.fault import Progress
from rankmuster.watch.snapshot import InstanceView


class TopStatus(IntEnum):
    """0: all advance, are idle, start or drain. 1: one has stopped or is slow. 2: nobody can tell: the watch is stale,
    an instance is unknown, or none is known at all. 3: there is no state."""

    FINE = 0
    STOPPED_OR_SLOW = 1
    UNTOLD = 2
    NO_STATE = 3


def judge(instances: Sequence[InstanceView], *, stale: bool) -> TopStatus:
    """The worst that is known now: what a stale state says is known no more."""
    states = {one.shown for one in instances}
    if stale or not states:
        return TopStatus.UNTOLD
    if states & {Progress.STOPPED, Progress.SLOW}:
        return TopStatus.STOPPED_OR_SLOW
    return TopStatus.UNTOLD if Progress.UNKNOWN in states else TopStatus.FINE
