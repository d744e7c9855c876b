"""The roll of each group: per member, which numbers it entered, with what, and which it left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankmuster.diagnose import silent_groups
from rankmuster.diagnose.chosen import seconds, taken
from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.op_names import base_name
from rankmuster.diagnose.signatures import Signature, Signatures
from rankmuster.model.flight import CallField, Flags, Floats, Indexes, Ints, State
from rankmuster.model.job import Group, RankGroupView


@dataclass(frozen=True, slots=True, eq=False)
class RankRoll:
    """One rank's collectives of one group, ascending by `seq`, one row a number; shape (numbers,).

    `signature`: index into the table's signatures. Times are unix seconds of the rank's host.
    """

    seq: Ints
    signature: Indexes
    finished: Flags
    failed: Flags
    started: Flags
    created: Floats
    completed: Floats
    duration_ms: Floats
    row: Ints

    def between(self, low: int, high: int) -> RankRoll:
        """Positions `low` to `high`, as views."""
        return RankRoll(
            self.seq[low:high],
            self.signature[low:high],
            self.finished[low:high],
            self.failed[low:high],
            self.started[low:high],
            self.created[low:high],
            self.completed[low:high],
            self.duration_ms[low:high],
            self.row[low:high],
        )

    def at(self, seq: int) -> int | None:
        """Position of `seq`, or None."""
        position = int(np.searchsorted(self.seq, seq))
        return position if position < len(self.seq) and int(self.seq[position]) == seq else None


@dataclass(frozen=True, slots=True)
class Head:
    """The first operation, in program order, that a rank has enqueued and not finished: what it stands at.

    `seq` for collectives; `kind` and `peer` (global rank, None unknown) for sends and receives.
    """

    rank: int
    group: int
    seq: int | None
    op: str
    row: int
    started: bool
    created: float
    kind: str | None = None
    peer: int | None = None
    batch: int | None = None  # row of the terminator of the batch it belongs to


@dataclass(frozen=True, slots=True, eq=False)
class RollTable:
    """Everything the dumps say, aligned: rolls per (group key, rank), heads per rank, all signatures.

    `unplaced`: (group key, rank) of which the rank's dump cannot say where it stands in that group.
    """

    groups: tuple[Group, ...]
    rows: Mapping[int, FlightRows]  # by rank
    rolls: Mapping[tuple[int, int], RankRoll]
    heads: Mapping[int, Head | None]
    signatures: tuple[Signature, ...]
    views: Mapping[tuple[int, int], RankGroupView]
    local_groups: Mapping[tuple[int, int], int]
    unplaced: frozenset[tuple[int, int]]
    cut: Indexes  # the signatures that are cut

    def group(self, key: int) -> Group:
        return self.groups[key]

    def op_at(self, group: int, seq: int, ranks: Iterable[int]) -> str | None:
        """The operation that `ranks` know under this number."""
        for rank in ranks:
            roll = self.rolls.get((group, rank))
            position = roll.at(seq) if roll is not None else None
            if roll is not None and position is not None:
                return self.signatures[int(roll.signature[position])].op
        return None

    def reference(self, rank: int, row: int) -> str:
        """How findings cite an entry: `flight/nccl_trace_rank_2#750` (the entry's record id)."""
        dump = self.rows[rank].dump
        return f"{dump.source}#{int(dump.columns.record_id[row])}"


def build(
    groups: tuple[Group, ...], local_groups: Mapping[tuple[int, int], int], rows: Mapping[int, FlightRows]
) -> RollTable:
    """Aligns the rows of all dumps by group members and sequence number, never by record id."""
    signatures = Signatures()
    rolls: dict[tuple[int, int], RankRoll] = {}
    views: dict[tuple[int, int], RankGroupView] = {}
    heads: dict[int, Head | None] = {}
    for rank, flight in rows.items():
        own = _rolls(flight, signatures.of(flight))
        keys = {index: local_groups.get((rank, index)) for index in own}
        for index, roll in own.items():
            key = keys[index]
            if key is not None:
                rolls[(key, rank)] = roll
        highest = _highest(flight)
        for key in {key for key in keys.values() if key is not None}:
            issued = [highest[index] for index in own if keys[index] == key]
            views[(key, rank)] = _view(rank, rolls[(key, rank)], flight, max(issued))
        heads[rank] = _head(rank, flight, groups, local_groups)
    more, unplaced = silent_groups.place(groups, local_groups, rows, frozenset(views))
    views.update(more)
    return RollTable(groups, rows, rolls, heads, signatures.all(), views, local_groups, unplaced, signatures.cut())


def _rolls(flight: FlightRows, signature: Indexes) -> dict[int, RankRoll]:
    """The rank's roll per group, by its index in the dump: views into columns that are sorted by group once."""
    columns = flight.dump.columns
    rows = flight.by_group if flight.whole else flight.by_group[flight.kept.take(flight.by_group)]
    if not len(rows):
        return {}
    group_of_call = columns.of_calls(CallField.GROUP)
    seq, group = columns.seq.take(rows), group_of_call.take(columns.call.take(rows))
    if bool((seq < 0).any()) or bool(((seq[1:] <= seq[:-1]) & (group[1:] == group[:-1])).any()):
        rows = _one_a_number(rows, seq, group)
        seq, group = columns.seq.take(rows), group_of_call.take(columns.call.take(rows))
    bounds = np.searchsorted(group, np.arange(len(columns.groups) + 1)).tolist()
    whole = RankRoll(
        seq,
        signature.take(rows),
        flight.ended.take(rows),
        flight.broken.take(rows),
        taken(columns.state, rows) >= State.STARTED,
        seconds(taken(columns.created_ns, rows)),
        seconds(taken(columns.completed_ns, rows)),
        taken(columns.duration_ms, rows),
        rows,
    )
    return {index: whole.between(low, high) for index, (low, high) in enumerate(pairwise(bounds)) if low < high}


def _one_a_number(rows: Ints, seq: Ints, group: Ints) -> Ints:
    """The rows by group and number; of several under one number the last, and none without a number."""
    order = np.lexsort((rows, seq, group))
    seq, group = seq[order], group[order]
    last = seq >= 0
    last[:-1] &= (seq[1:] != seq[:-1]) | (group[1:] != group[:-1])
    chosen: Ints = rows[order[last]]
    return chosen


def _highest(flight: FlightRows) -> list[int]:
    """The highest number of each of the dump's groups; a send carries the number of the last collective before it."""
    columns = flight.dump.columns
    highest = np.full(len(columns.groups), -1, dtype=np.int64)
    np.maximum.at(highest, columns.group, columns.seq)
    sends = flight.p2p.groups()
    for index, group in enumerate(columns.groups):
        status = flight.dump.status.get(str(group.pg_id))
        if group.pg_id is not None and status is not None and index not in sends:
            highest[index] = max(int(highest[index]), status.last_enqueued)
    found: list[int] = highest.tolist()
    return found


def _head(
    rank: int, flight: FlightRows, groups: tuple[Group, ...], local_groups: Mapping[tuple[int, int], int]
) -> Head | None:
    columns = flight.dump.columns
    outstanding = flight.kept & ~flight.ended
    first = int(outstanding.argmax()) if outstanding.any() else None
    waiting = flight.p2p.first_outstanding()
    if waiting is not None and (first is None or waiting.row < first):
        key = local_groups.get((rank, waiting.group))
        if key is not None:
            members = groups[key].members
            peer = members[waiting.peer] if 0 <= waiting.peer < len(members) else None
            # The entry of a coalesced batch never starts; its terminator does.
            row = waiting.row if waiting.batch is None else waiting.batch
            started = bool(columns.state[row] >= 2)
            return Head(
                rank, key, None, waiting.kind, waiting.row, started, waiting.created, waiting.kind, peer, waiting.batch
            )
    if first is None:
        return None
    key = local_groups.get((rank, int(columns.calls[columns.call[first], CallField.GROUP])))
    if key is None:
        return None
    named = first
    if len(flight.batches.ends) and first in flight.batches.ends:
        named = int(flight.batches.parts[flight.batches.starts[np.searchsorted(flight.batches.ends, first)]])
    return Head(
        rank,
        key,
        int(columns.seq[first]),
        base_name(columns.op_of(named)),
        first,
        bool(columns.state[first] >= State.STARTED),
        int(columns.created_ns[first]) / 1e9,
    )


def _view(rank: int, roll: RankRoll, flight: FlightRows, highest: int) -> RankGroupView:
    issued = max(int(roll.seq[-1]), highest)
    done = np.flatnonzero(roll.finished)
    finished = int(roll.seq[done[-1]]) if len(done) else -1
    if flight.dump.only_active:
        # What is not listed has finished.
        outstanding = roll.seq[~roll.finished]
        finished = max(finished, int(outstanding.min()) - 1 if len(outstanding) else issued)
    return RankGroupView(rank, issued, finished)
