"""Coalesced groups and batches of sends and receives: which rows belong to which terminator.

Children stay `scheduled` for ever; only the terminator's state moves (torch's ProcessGroupNCCL gives them no events).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.model.flight import Flags, FlightDump, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Rows that belong together. Shape (rows,) but for the last three.

    `terminator`: per row the terminator that it is a part of, -1 for none. `child`: it is a part of a collective.
    `of_p2p`: it ends a batch of sends and receives. `ends`: terminators of collectives with parts, ascending; the
    `counts[i]` parts of `ends[i]` are the rows `parts[starts[i]:starts[i] + counts[i]]`, in program order.
    """

    terminator: Ints
    child: Flags
    of_p2p: Flags
    ends: Ints
    starts: Ints
    counts: Ints
    parts: Ints


def coalesced(group: Ints, seq: Ints, terminator: Flags, p2p_flag: Flags) -> Batches:
    """Parts per terminator: the rows of its group before it, back to the terminator before, all of one kind.

    Those of a collective also share its number.
    """
    count = len(group)
    none = np.full(count, -1, dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    if not terminator.any():
        flags = np.zeros(count, dtype=bool)
        return Batches(none, flags, flags.copy(), nothing, nothing, nothing, nothing)
    order = np.argsort(group, kind="stable")
    ends, p2p, number, own = terminator[order], p2p_flag[order], seq[order], group[order]
    same = own[:-1] == own[1:]
    alike = (p2p[:-1] == p2p[1:]) | ends[1:]
    # A part of a collective has the number of what follows it; a send's number is that of a collective before it.
    linked = same & ~ends[:-1] & alike & (p2p[:-1] | (number[:-1] == number[1:]))
    first = np.concatenate([[True], ~linked])  # of a run: rows linked each to the next
    run = np.cumsum(first) - 1
    last = np.flatnonzero(np.concatenate([~linked, [True]]))
    begin = np.flatnonzero(first)
    closed = ends[last] & (last > begin)  # runs of more than a terminator alone
    inside = closed[run] & ~ends
    owner = none.copy()
    owner[order[inside]] = order[last[run[inside]]]
    of_p2p = np.zeros(count, dtype=bool)
    batched = closed & p2p[begin]
    of_p2p[order[last[batched]]] = True
    child = np.zeros(count, dtype=bool)
    child[order[inside & ~p2p]] = True
    collective = np.flatnonzero(closed & ~p2p[begin])
    collective = collective[np.argsort(order[last[collective]])]
    return Batches(owner, child, of_p2p, order[last[collective]], begin[collective], (last - begin)[collective], order)


def left_children(dump: FlightDump, terminator: Flags, p2p_flag: Flags, batched: Flags) -> Flags:
    """Parts of batches whose terminator has finished and is not listed, in dumps of active operations alone.

    Parts share their batch's number, single sends never do; where batches are in use, a single one that the record
    behind it is missing of was a batch of one.
    """
    columns = dump.columns
    left = np.zeros(len(columns), dtype=bool)
    if not dump.only_active or not (p2p_flag & ~batched).any():
        return left
    batches = bool(terminator.any())
    group, p2p_seq, record_id = columns.group.tolist(), columns.p2p_seq.tolist(), columns.record_id.tolist()
    loose_rows = (p2p_flag & ~batched).tolist()
    run: list[int] = []
    for row, loose in enumerate(loose_rows):
        same = run and group[row] == group[run[0]] and p2p_seq[row] == p2p_seq[run[0]]
        adjoining = run and record_id[row] == record_id[run[-1]] + 1
        if not loose or not same or not adjoining:
            if (len(run) > 1 or (run and batches)) and not adjoining:
                left[run] = True
            run = [row] if loose else []
        else:
            run.append(row)
    if len(run) > 1:
        left[run] = True
    return left
