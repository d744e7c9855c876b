"""Flight Recorder: what time-out a group's own history supports, said only where raising it may be right.

The rule is the catalogue's (`rankmuster explain persistent`): three times the 99.9th percentile of the completed
collectives, not below what the transport's own retries need. Blind without durations, and to what the window missed.
"""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding
from rankmuster.model.plane import Plane

NAME = "timeout-history"

FEWEST = 1000
"""Completed collectives on which a 99.9th percentile means anything."""

FACTOR = 3.0
"""Room for a load that the history has not seen."""

FLOOR_SECONDS = 60.0
"""Transport retries end by then and name the path (NCCL: 30 s over RDMA, 60 s for a TCP connection)."""


def explain(context: Context) -> list[Finding]:
    """One finding per group with enough history."""
    found = []
    for group in context.table.groups:
        rolls = [roll for rank in group.members if (roll := context.table.rolls.get((group.key, rank))) is not None]
        durations = [roll.duration_ms[roll.finished & np.isfinite(roll.duration_ms)] for roll in rolls]
        everything = np.concatenate(durations) if durations else np.zeros(0)
        if len(everything) < FEWEST:
            continue
        high = float(np.percentile(everything, 99.9)) / 1e3
        supported = max(FACTOR * high, FLOOR_SECONDS)
        configured = {
            int(value)
            for rank in group.members
            if rank in context.table.rows
            for value in np.unique(context.table.rows[rank].dump.columns.timeout_ms)
            if value > 0
        }
        now = f"; it is {max(configured) / 1e3:.0f} s now" if configured else ""
        statement = (
            f"{group.label}: 99.9 % of {len(everything)} completed collectives took under {high * 1e3:.0f} ms: its own "
            f"history supports a time-out of {supported:.0f} s{now}"
        )
        source = next(context.table.rows[rank].dump.source for rank in group.members if rank in context.table.rows)
        found.append(Finding(NAME, Plane.FLIGHT, statement, (source,)))
    return found
