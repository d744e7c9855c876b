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
from rankmuster.model.flight import Floats, Ints

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
    differences = _differences(table, {rank: host for host, ranks in by_host.items() for rank in ranks}, reference)
    offsets = {reference: (0.0, 0.0)}
    for host, found in differences.items():
        apart = np.concatenate(found)
        if len(apart) < FEWEST:
            continue
        middle = float(np.median(apart))
        spread = float(np.median(np.abs(apart - middle))) * 1.4826
        offsets[host] = (middle, max(spread, WATCHDOG_SECONDS))
    return offsets if len(offsets) > 1 else {}


def _differences(table: RollTable, host_of: dict[int, str], reference: str) -> dict[str, list[Floats]]:
    """Per host: seconds from its first sight of an operation's end to the reference's, of all that both saw end."""
    symmetric = symmetric_mask(table)
    by_group: dict[int, dict[str, list[tuple[Ints, Floats]]]] = defaultdict(lambda: defaultdict(list))
    for (key, rank), roll in table.rolls.items():
        host = host_of.get(rank)
        if host is None:
            continue
        usable = roll.finished & (roll.completed > 0) & symmetric[roll.signature]
        if usable.any():
            by_group[key][host].append((roll.seq[usable], roll.completed[usable]))
    found: dict[str, list[Floats]] = defaultdict(list)
    for hosts in by_group.values():
        if reference not in hosts or len(hosts) < 2:
            continue
        numbers, ends = _earliest(hosts[reference])
        for host, seen in hosts.items():
            if host == reference:
                continue
            own_numbers, own_ends = _earliest(seen)
            _, here, there = np.intersect1d(numbers, own_numbers, assume_unique=True, return_indices=True)
            if len(here):
                found[host].append(ends[here] - own_ends[there])
    return found


def _earliest(seen: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """(numbers, when the first rank of the host saw each end), ascending by number."""
    numbers = np.concatenate([numbers for numbers, _ in seen])
    ends = np.concatenate([ends for _, ends in seen])
    order = np.lexsort((ends, numbers))
    distinct, first = np.unique(numbers[order], return_index=True)
    return distinct, ends[order][first]
