"""Dumps that were taken in motion, earlier than their peers': what moved then may stand now.

The motion that a dump shows holds at its own look. Peers that have passed what it had enqueued were looked at later,
and so were those whose look is known to be; where none of these moved, the job stood, and the early dump says of its
rank only where that was before. Where nothing tells which came first, and most show no motion, nobody can say whether
the job moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.diagnose.waits import passed
from rankmuster.model.job import DumpFacts


@dataclass(frozen=True, slots=True)
class Motion:
    """`earlier`: ranks whose dump was taken in motion, before the others stood.

    `doubtful`: some moved and most did not, at looks of which nobody knows the order.
    """

    earlier: frozenset[int] = frozenset()
    doubtful: bool = False


def motion(table: RollTable, facts: Mapping[int, DumpFacts], limits: Thresholds) -> Motion:
    """What the dumps in motion say of the job as a whole, beside those that stand at something and are not."""
    live = {rank: one for rank, one in facts.items() if not one.stale}
    moving = frozenset(rank for rank, one in live.items() if one.in_motion)
    standing = [one for one in live.values() if one.has_events and not one.in_motion and table.heads.get(one.rank)]
    if not moving or not standing or any(live[rank].went_on for rank in moving):
        return Motion()
    if moving <= {rank for _, rank in passed(table)}:
        return Motion(moving)
    looks = [one.look for one in standing if one.look is not None]
    before = [look for rank in moving if (look := live[rank].look) is not None]
    if looks and len(before) == len(moving) and max(before) + limits.dump_spread_seconds < max(looks):
        return Motion(moving)
    noted = all(live[rank].look_noted for rank in moving) and all(one.look_noted for one in standing)
    return Motion(doubtful=not noted and len(moving) <= len(standing))
