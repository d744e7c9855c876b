"""Sends and receives of all ranks, matched by (source, destination, order), over columns.

torch numbers a rank's own messages of a group (`p2p_seq_id`), which both ends share in a group of two only. Elsewhere
counting does, where both dumps hold everything from their first record on; else the order is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rankmuster.diagnose.chosen import joined
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.legal import total
from rankmuster.diagnose.op_names import op_name
from rankmuster.diagnose.signatures import Shapes
from rankmuster.model.flight import CallField, Ints
from rankmuster.model.flight_report import Clash, Messages, Unmatched

MAX_TOLD = 16
"""Clashes and unmatched pairs told of one group."""

MOST_ELEMENTS = 1 << 53
"""More are damage: no message of this world is as large."""

BATCH = 1 << 16
"""Messages of one pair in one batch, at most: a ring holds fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """One row a message as one end recorded it; arrays of shape (messages,)."""

    group: Ints
    source: Ints
    destination: Ints
    sends: NDArray[np.bool_]
    number: Ints  # p2p_seq_id
    size: Ints  # elements
    finished: NDArray[np.bool_]


def messages(context: Context) -> dict[int, Messages]:
    """Per group key, for groups in which somebody sends or receives."""
    table = context.table
    parts = []
    for rank, flight in table.rows.items():
        if len(flight.p2p):
            part = _of(context, rank, flight)
            if part is not None:
                parts.append(part)
    if not parts:
        return {}
    whole = _joined(parts)
    change = np.flatnonzero(
        (np.diff(whole.group) != 0) | (np.diff(whole.source) != 0) | (np.diff(whole.destination) != 0)
    )
    starts = np.concatenate([[0], change + 1, [len(whole.group)]]).tolist()
    found: dict[int, _Tally] = {}
    for low, high in pairwise(starts):
        tally = found.setdefault(int(whole.group[low]), _Tally())
        _pair(context, whole, slice(low, high), tally)
    return {key: tally.told() for key, tally in found.items()}


def _joined(parts: list[_Table]) -> _Table:
    """All parts, by group, source and destination, each pair in program order."""
    whole = joined(parts)
    order = np.lexsort((whole.destination, whole.source, whole.group))
    return _Table(*(getattr(whole, column.name)[order] for column in fields(whole)))


def _of(context: Context, rank: int, flight: FlightRows) -> _Table | None:
    table, columns, p2p = context.table, flight.dump.columns, flight.p2p
    group = np.full(len(columns.groups), -1, dtype=np.int64)
    source, destination = np.full(len(p2p), -1, dtype=np.int64), np.full(len(p2p), -1, dtype=np.int64)
    for index in p2p.groups():
        key = table.local_groups.get((rank, index))
        if key is None:
            continue
        group[index] = key
        members = np.array(table.group(key).members, dtype=np.int64)
        mine = (p2p.group == index) & (p2p.peer < len(members))
        peer = members[p2p.peer[mine]]
        sends = p2p.sends[mine]
        source[mine], destination[mine] = np.where(sends, rank, peer), np.where(sends, peer, rank)
    usable = (source >= 0) & (group[p2p.group] >= 0)
    if not usable.any():
        return None
    rows = p2p.row[usable]
    call = columns.call[rows]
    sizes = np.full(len(columns.calls), -1, dtype=np.int64)
    for used in np.flatnonzero(np.bincount(call)).tolist():
        sends = op_name(columns.ops[int(columns.calls[used, CallField.OP])]).kind == "send"
        index = int(columns.calls[used, CallField.IN_SIZES if sends else CallField.OUT_SIZES])
        sizes[used] = _total(columns.sizes[index]) if index >= 0 else -1
    return _Table(
        group[p2p.group][usable],
        source[usable],
        destination[usable],
        p2p.sends[usable],
        columns.p2p_seq[rows],
        sizes[call],
        p2p.finished[usable],
    )


@lru_cache(maxsize=4096)
def _total(shapes: Shapes) -> int:
    return min(total(shapes), MOST_ELEMENTS)


class _Tally:
    """One group's messages while its pairs are counted."""

    def __init__(self) -> None:
        self.pairs = self.matched = self.clashing = self.unmatched_total = self.unknown = self.one_sided = 0
        self.clashes: list[Clash] = []
        self.unmatched: list[Unmatched] = []

    def told(self) -> Messages:
        return Messages(
            self.pairs,
            self.matched,
            tuple(self.clashes[:MAX_TOLD]),
            self.clashing,
            tuple(sorted(self.unmatched, key=lambda lone: not lone.stands)[:MAX_TOLD]),
            self.unmatched_total,
            self.unknown,
            self.one_sided,
        )


def _pair(context: Context, whole: _Table, mine: slice, tally: _Tally) -> None:
    rows = context.table.rows
    key, source, destination = (
        int(whole.group[mine.start]),
        int(whole.source[mine.start]),
        int(whole.destination[mine.start]),
    )
    tally.pairs += 1
    if source not in rows or destination not in rows or source == destination:
        tally.one_sided += 1
        return
    sends = whole.sends[mine]
    number = np.arange(int(sends.sum())), np.arange(int((~sends).sum()))
    if not (rows[source].dump.from_the_first and rows[destination].dump.from_the_first):
        of_two = len(context.table.group(key).members) == 2
        if not of_two or rows[source].dump.only_active or rows[destination].dump.only_active:
            tally.unknown += 1
            return
        own = whole.number[mine]
        number = _numbered(own[sends]), _numbered(own[~sends])
        both = [int(own[side][0]) for side in (sends, ~sends) if side.any()]
        if len(both) < 2:
            tally.unknown += 1
            return
        # The batch that a ring begins with may have lost its first parts.
        beginning = (max(both) + 1) * BATCH
    else:
        beginning = 0
    size, done = whole.size[mine], whole.finished[mine]
    sent, got = number[0] >= beginning, number[1] >= beginning
    common, at_send, at_receive = np.intersect1d(number[0][sent], number[1][got], return_indices=True)
    passed, expected = size[sends][sent][at_send], size[~sends][got][at_receive]
    tally.matched += len(common)
    wrong = np.flatnonzero((passed != expected) & (passed >= 0) & (expected >= 0))
    tally.clashing += len(wrong)
    for place in wrong[: max(0, MAX_TOLD - len(tally.clashes))].tolist():
        which = int(np.searchsorted(number[0][sent], common[place])) + 1
        tally.clashes.append(Clash(source, destination, which, int(passed[place]), int(expected[place])))
    for side, flags, kept, at in (("send", sends, sent, at_send), ("receive", ~sends, got, at_receive)):
        other = rows[destination if side == "send" else source]
        alone = np.ones(int(kept.sum()), dtype=bool)
        alone[at] = False
        # Who has finished a message had a partner; what lies behind the end of a cut file is unknown.
        count = int((alone & ~done[flags][kept]).sum())
        if count and not other.dump.cut:
            tally.unmatched_total += count
            first = count == int((~done[flags][kept]).sum())
            stands = first and _stands(context, key, source, destination, side)
            tally.unmatched.append(Unmatched(source, destination, side, count, stands))


def _stands(context: Context, key: int, source: int, destination: int, side: str) -> bool:
    """Whether one end stands at a message of the pair."""
    waiter, peer = (source, destination) if side == "send" else (destination, source)
    head = context.table.heads.get(waiter)
    return (
        head is not None
        and head.group == key
        and head.peer == peer
        and head.kind == ("send" if side == "send" else "recv")
    )


def _numbered(p2p_seq: Ints) -> Ints:
    """`p2p_seq_id`, which the parts of a batch share, and the place within it as one ascending number."""
    place = np.arange(len(p2p_seq))
    first = np.searchsorted(p2p_seq, p2p_seq) if bool((np.diff(p2p_seq) >= 0).all()) else place
    found: Ints = p2p_seq * BATCH + (place - first)
    return found
