"""Dumps that were taken in motion, earlier than their peers': what moved then may stand now.

The motion that a dump shows holds at its own look. Peers that have passed what it had enqueued were looked at later;
where none of these moved, the job stood, and the early dump says of its rank only where that was before.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.waits import passed
from rankmuster.model.job import DumpFacts


def earlier(table: RollTable, facts: Mapping[int, DumpFacts]) -> frozenset[int]:
    """The ranks of such dumps; none where a dump that nobody has passed shows motion too."""
    moving = {rank for rank, one in facts.items() if one.in_motion and not one.stale}
    if not moving or len(moving) == sum(1 for one in facts.values() if not one.stale and one.entries):
        return frozenset()
    behind = {rank for _, rank in passed(table)}
    return frozenset(moving) if moving <= behind else frozenset()
