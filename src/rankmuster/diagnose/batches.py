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


def no_batches(count: int) -> Batches:
    """Of a dump in which nothing is coalesced, with `count` rows."""
    nothing = np.zeros(0, dtype=np.int64)
    flags = np.broadcast_to(np.bool_(False), count)
    return Batches(np.broadcast_to(np.int64(-1), count), flags, flags, nothing, nothing, nothing, nothing)


def coalesced(group: Ints, seq: Ints, terminator: Flags, p2p_flag: Flags, order: Ints | None = None) -> Batches:
    """Parts per terminator: the rows of its group before it, back to the terminator before, all of one kind.

    Those of a collective also share its number. `order`: all rows by group, where that is known.
    """
    count = len(group)
    if not terminator.any():
        return no_batches(count)
    if order is None:
        order = np.argsort(group, kind="stable")
    ends, p2p, number, own = terminator.take(order), p2p_flag.take(order), seq.take(order), group.take(order)
    alike = (p2p[:-1] == p2p[1:]) | ends[1:]
    # A part of a collective has the number of what follows it; a send's number is that of a collective before it.
    linked = (own[:-1] == own[1:]) & ~ends[:-1] & alike & (p2p[:-1] | (number[:-1] == number[1:]))
    # A run is of rows linked each to the next.
    last = np.concatenate([np.flatnonzero(~linked), [count - 1]])
    begin = np.concatenate([[0], last[:-1] + 1])
    closed = ends.take(last) & (last > begin)  # of more than a terminator alone
    begin, last = begin[closed], last[closed]
    counts = last - begin
    # Places of all parts: each run's beginning, and one more for each of its parts.
    places = np.repeat(begin - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
    parts = order.take(places)
    owner = np.full(count, -1, dtype=np.int64)
    owner[parts] = np.repeat(order.take(last), counts)
    batched = p2p.take(begin)
    of_p2p = np.zeros(count, dtype=bool)
    of_p2p[order.take(last[batched])] = True
    child = np.zeros(count, dtype=bool)
    child[parts] = True
    child &= ~p2p_flag
    collective = np.flatnonzero(~batched)
    collective = collective[np.argsort(order.take(last[collective]))]
    return Batches(owner, child, of_p2p, order.take(last[collective]), begin[collective], counts[collective], order)


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


def passed_messages(dump: FlightDump, terminator: Flags, p2p_flag: Flags) -> Flags:
    """Sends and receives that have finished and are listed all the same, in dumps of active operations alone.

    Parts of a batch never complete, so that they are listed for ever. Where a group does nothing but send and receive,
    as the groups of a pipeline do, its status counts these alone and says which of them are over.
    """
    columns = dump.columns
    passed = np.zeros(len(columns), dtype=bool)
    if not dump.only_active or not dump.status:
        return passed
    pg_id = columns.pg_id
    for own in np.unique(pg_id[p2p_flag]).tolist():
        status = dump.status.get(str(own))
        mine = pg_id == own
        if status is None or not (p2p_flag | terminator)[mine].all():
            continue
        collective, messages = columns.seq[mine], columns.p2p_seq[mine]
        # A collective in between would have moved the one number, and its own would have taken over the counter.
        alone = int(collective.min()) == int(collective.max()) and status.last_completed != int(collective[0])
        if alone and status.last_enqueued >= int(messages.max()):
            passed |= mine & (columns.p2p_seq <= status.last_completed)
    return passed


def left_parts(dump: FlightDump, p2p_call: Flags, batched: Flags) -> Flags:
    """Parts of coalesced collectives whose terminator has finished and is not listed: they share one number.

    The status counter does not tell them: it is as old as the watchdog's last look. Blind to a collective of one part.
    """
    columns = dump.columns
    loose = ~(p2p_call.take(columns.call) | batched)
    rows = np.flatnonzero(loose)
    left = np.zeros(len(columns), dtype=bool)
    group, seq, record_id = columns.group.take(rows), columns.seq.take(rows), columns.record_id.take(rows)
    pairs = (group[1:] == group[:-1]) & (seq[1:] == seq[:-1]) & (record_id[1:] == record_id[:-1] + 1)
    left[rows[1:][pairs]] = True
    left[rows[:-1][pairs]] = True
    return left
