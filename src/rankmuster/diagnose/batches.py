"""Coalesced groups and batches of sends and receives: which rows belong to which terminator.

Children stay `scheduled` for ever; only the terminator's state moves (torch's ProcessGroupNCCL gives them no events).
"""

from __future__ import annotations

import numpy as np

from rankmuster.model.flight import Flags, FlightDump, Ints


def left_children(dump: FlightDump, terminator: Flags, p2p_flag: Flags, batched: set[int]) -> Flags:
    """Parts of batches whose terminator has finished and is not listed, in dumps of active operations alone.

    Parts share their batch's number, single sends never do; where batches are in use, a single one that the record
    behind it is missing of was a batch of one.
    """
    columns = dump.columns
    left = np.zeros(len(columns), dtype=bool)
    if not dump.only_active:
        return left
    batches = bool(terminator.any())
    run: list[int] = []
    for row in range(len(columns)):
        loose = bool(p2p_flag[row]) and row not in batched
        same = run and columns.group[row] == columns.group[run[0]] and columns.p2p_seq[row] == columns.p2p_seq[run[0]]
        adjoining = run and columns.record_id[row] == columns.record_id[run[-1]] + 1
        if not loose or not same or not adjoining:
            if (len(run) > 1 or (run and batches)) and not adjoining:
                left[run] = True
            run = [row] if loose else []
        else:
            run.append(row)
    if len(run) > 1:
        left[run] = True
    return left


def coalesced(
    group: Ints, seq: Ints, terminator: Flags, p2p_flag: Flags
) -> tuple[Flags, dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Children per terminator: those of collectives, and those of batches of sends and receives."""
    child = np.zeros(len(group), dtype=bool)
    before = _before(group)
    collectives: dict[int, tuple[int, ...]] = {}
    batches: dict[int, tuple[int, ...]] = {}
    for row in np.flatnonzero(terminator).tolist():
        found: list[int] = []
        previous = before[row]
        p2p_batch: bool | None = None
        while previous >= 0:
            if terminator[previous]:
                break
            is_p2p = bool(p2p_flag[previous])
            if p2p_batch is None:
                p2p_batch = is_p2p
            if is_p2p != p2p_batch or (not is_p2p and seq[previous] != seq[row]):
                break
            found.append(previous)
            previous = before[previous]
        if p2p_batch:
            batches[row] = tuple(reversed(found))
        elif found:
            collectives[row] = tuple(reversed(found))
            child[found] = True
    return child, collectives, batches


def _before(group: Ints) -> list[int]:
    """Per row the row before it in the same group, -1 for a group's first."""
    last: dict[int, int] = {}
    found = []
    for row, index in enumerate(group.tolist()):
        found.append(last.get(index, -1))
        last[index] = row
    return found
