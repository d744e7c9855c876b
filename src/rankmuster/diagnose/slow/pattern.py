"""What a measured lateness amounts to: always, in a tail, or what healthy jobs show. Detector and analysis ask here."""

from __future__ import annotations

from rankmuster.diagnose.slow.lateness import Lateness
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.slow import Pattern


def judge(late: Lateness, limits: Thresholds, *, disturbed: bool) -> Pattern:
    """`disturbed`: the window may be slowed by dumps with stacks."""
    if late.dominance < limits.late_dominance:
        return Pattern.SEVERAL
    enough = limits.late_share_disturbed if disturbed else limits.late_share
    # One rank that is last in every launch by microseconds is health; long waits, or most of the time, are not.
    counts = late.long_share >= enough or (
        late.share >= limits.late_most and late.dominance >= limits.late_alone and not disturbed
    )
    if late.steady >= limits.late_steady and counts:
        return Pattern.PERSISTENT
    tail = late.events >= limits.late_tail_events and late.steady < limits.late_steady
    if tail and late.long_share >= (limits.late_share_disturbed if disturbed else limits.tail_share):
        return Pattern.TAIL
    return Pattern.ORDINARY


def comes_from_elsewhere(share: float, elsewhere: float, limits: Thresholds) -> bool:
    """Whether a rank that is late for this share of the time waits in other groups itself: a victim there."""
    return elsewhere >= limits.late_elsewhere * share
