"""Clocks of hosts against each other, from collectives that every rank completed, with the error bar.

A symmetric operation ends on all ranks within its own duration, so differences between the times at which hosts saw it
end are clock difference plus the watchdog's delay (it looks about ten times a second, torch ProcessGroupNCCL). Many
operations and the earliest rank of each host leave the clocks' difference and a bar for the rest.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from rankmuster.diagnose.legal import symmetric_mask
from rankmuster.diagnose.lookup import Roster
from rankmuster.diagnose.roll import RollTable

FEWEST = 8
"""Operations that two hosts must share for an estimate."""

WATCHDOG_SECONDS = 0.1
"""How much later than its end an operation may be seen to end; the least error of any estimate."""


def estimate(table: RollTable, roster: Roster) -> dict[str, tuple[float, float]]:
    """host -> (seconds to add to its stamps, error in seconds), against the host with most ranks; itself (0, 0).

    Empty for an instance on one host, and without operations that several hosts completed.
    """
    by_host: dict[str, set[int]] = defaultdict(set)
    for rank in roster.ranks:
        if rank.host is not None and rank.rank in table.rows:
            by_host[rank.host].add(rank.rank)
    if len(by_host) < 2:
        return {}
    reference = max(sorted(by_host), key=lambda host: len(by_host[host]))
    ends = {host: _ends(table, ranks) for host, ranks in by_host.items()}
    offsets = {reference: (0.0, 0.0)}
    for host, seen in ends.items():
        shared = sorted(set(seen) & set(ends[reference]))
        if host == reference or len(shared) < FEWEST:
            continue
        differences = np.array([ends[reference][key] - seen[key] for key in shared])
        middle = float(np.median(differences))
        spread = float(np.median(np.abs(differences - middle))) * 1.4826
        offsets[host] = (middle, max(spread, WATCHDOG_SECONDS))
    return offsets if len(offsets) > 1 else {}


def _ends(table: RollTable, ranks: set[int]) -> dict[tuple[int, int], float]:
    """(group, number) -> when the first rank of the host saw it end, for finished symmetric operations."""
    symmetric = symmetric_mask(table)
    earliest: dict[tuple[int, int], float] = {}
    for (key, rank), roll in table.rolls.items():
        if rank not in ranks:
            continue
        usable = roll.finished & (roll.completed > 0) & symmetric[roll.signature]
        for seq, end in zip(roll.seq[usable].tolist(), roll.completed[usable].tolist(), strict=True):
            place = (key, seq)
            earliest[place] = min(end, earliest.get(place, end))
    return earliest
