"""The roll of each group: per member, which numbers it entered, with what, and which it left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose import silent_groups
from rankmuster.diagnose.flight_rows import FlightRows, P2p, base_name
from rankmuster.model.flight import Flags, Floats, Ints
from rankmuster.model.job import Group, RankGroupView

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What one rank passed to one collective: operation without backend, sizes and dtypes per tensor."""

    op: str
    in_sizes: Shapes
    out_sizes: Shapes
    in_dtypes: tuple[str, ...]
    out_dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RankRoll:
    """One rank's collectives of one group, ascending by `seq`, one row a number; shape (numbers,).

    `signature`: index into the table's signatures. Times are unix seconds of the rank's host.
    """

    seq: Ints
    signature: Ints
    finished: Flags
    failed: Flags
    started: Flags
    created: Floats
    completed: Floats
    duration_ms: Floats
    row: Ints

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
    unplaced: frozenset[tuple[int, int]] = frozenset()

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
    interned: dict[Signature, int] = {}
    rolls: dict[tuple[int, int], RankRoll] = {}
    heads: dict[int, Head | None] = {}
    for rank, flight in rows.items():
        signature = _signatures(flight, interned)
        for index in range(len(flight.dump.columns.groups)):
            key = local_groups.get((rank, index))
            if key is None:
                continue
            mine = np.flatnonzero((flight.group == index) & (flight.seq >= 0))
            if len(mine):
                rolls[(key, rank)] = _roll(flight, mine, signature)
        heads[rank] = _head(rank, flight, groups, local_groups)
    views = {place: _view(place, roll, rows[place[1]], local_groups) for place, roll in rolls.items()}
    more, unplaced = silent_groups.place(groups, local_groups, rows, frozenset(views))
    views.update(more)
    return RollTable(groups, rows, rolls, heads, tuple(interned), views, local_groups, unplaced)


def _signatures(flight: FlightRows, interned: dict[Signature, int]) -> Ints:
    columns = flight.dump.columns
    bases = [base_name(op) for op in columns.ops]
    keys = np.stack(
        [
            flight.op,
            columns.in_sizes[flight.row],
            columns.out_sizes[flight.row],
            columns.in_dtypes[flight.row],
            columns.out_dtypes[flight.row],
        ],
        axis=1,
    )
    unique, inverse = np.unique(keys, axis=0, return_inverse=True) if len(keys) else (keys, np.zeros(0, dtype=np.int64))
    ids = np.empty(len(unique), dtype=np.int64)
    for position, (op, ins, outs, in_types, out_types) in enumerate(unique.tolist()):
        signature = Signature(
            bases[op], columns.sizes[ins], columns.sizes[outs], columns.dtypes[in_types], columns.dtypes[out_types]
        )
        ids[position] = interned.setdefault(signature, len(interned))
    result: Ints = ids[inverse.reshape(-1)]
    for position, children in flight.children.items():
        # A coalesced collective is what its children are, one after the other.
        combined = Signature(
            bases[int(flight.op[position])],
            tuple(shape for row in children for shape in columns.sizes[int(columns.in_sizes[row])]),
            tuple(shape for row in children for shape in columns.sizes[int(columns.out_sizes[row])]),
            tuple(kind for row in children for kind in columns.dtypes[int(columns.in_dtypes[row])]),
            tuple(kind for row in children for kind in columns.dtypes[int(columns.out_dtypes[row])]),
        )
        result[position] = interned.setdefault(combined, len(interned))
    return result


def _roll(flight: FlightRows, mine: Ints, signature: Ints) -> RankRoll:
    order = mine[np.argsort(flight.seq[mine], kind="stable")]
    _, last = np.unique(flight.seq[order][::-1], return_index=True)
    chosen = order[::-1][last]
    return RankRoll(
        flight.seq[chosen],
        signature[chosen],
        flight.finished[chosen],
        flight.failed[chosen],
        flight.started[chosen],
        flight.created[chosen],
        flight.completed[chosen],
        flight.duration_ms[chosen],
        flight.row[chosen],
    )


def _head(
    rank: int, flight: FlightRows, groups: tuple[Group, ...], local_groups: Mapping[tuple[int, int], int]
) -> Head | None:
    outstanding = np.flatnonzero(~flight.finished)
    first = int(outstanding[0]) if len(outstanding) else None
    waiting: P2p | None = next((entry for entry in flight.p2p if not entry.finished), None)
    if waiting is not None and (first is None or waiting.row < int(flight.row[first])):
        key = local_groups.get((rank, waiting.group))
        if key is not None:
            members = groups[key].members
            peer = members[waiting.peer] if 0 <= waiting.peer < len(members) else None
            # The entry of a coalesced batch never starts; its terminator does.
            row = waiting.row if waiting.batch is None else waiting.batch
            started = bool(flight.dump.columns.state[row] >= 2)
            return Head(
                rank, key, None, waiting.kind, waiting.row, started, waiting.created, waiting.kind, peer, waiting.batch
            )
    if first is None:
        return None
    key = local_groups.get((rank, int(flight.group[first])))
    if key is None:
        return None
    op = base_name(flight.dump.columns.ops[int(flight.op[first])])
    return Head(
        rank,
        key,
        int(flight.seq[first]),
        op,
        int(flight.row[first]),
        bool(flight.started[first]),
        float(flight.created[first]),
    )


def _view(
    place: tuple[int, int], roll: RankRoll, flight: FlightRows, local_groups: Mapping[tuple[int, int], int]
) -> RankGroupView:
    key, rank = place
    issued = int(roll.seq[-1])
    columns = flight.dump.columns
    has_p2p = {entry.group for entry in flight.p2p}
    for index, group in enumerate(columns.groups):
        if local_groups.get((rank, index)) != key or group.pg_id is None:
            continue
        status = flight.dump.status.get(str(group.pg_id))
        if status is not None and index not in has_p2p:
            issued = max(issued, status.last_enqueued)
        mine = columns.group == index
        # A send carries the number of the last collective before it.
        issued = max(issued, int(columns.seq[mine].max()))
    done = roll.seq[roll.finished]
    finished = int(done[-1]) if len(done) else -1
    if flight.dump.only_active:
        # What is not listed has finished.
        finished = max(finished, int(roll.seq[~roll.finished].min(initial=issued + 1)) - 1)
    return RankGroupView(rank, issued, finished)
