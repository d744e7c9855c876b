"""The sends and receives of one dump, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.batches import Batches
from rankmuster.diagnose.op_names import OpName
from rankmuster.model.flight import CallField, Flags, FlightColumns, Ints

FEW_KINDS = 1 << 16
"""Kinds of sends and receives, by group, direction and peer, that are told apart in a table instead of by sorting."""


@dataclass(frozen=True, slots=True)
class P2p:
    """A send or receive. `peer`: rank within its group. `batch`: row of the terminator that finishes it."""

    row: int
    group: int  # index in the dump
    kind: str  # send, recv
    peer: int
    finished: bool
    created: float  # unix seconds
    batch: int | None


@dataclass(frozen=True, slots=True, eq=False)
class P2pRows:
    """All of a dump, in program order; arrays of shape (sends and receives,). `batch`: -1 for none."""

    row: Ints
    group: Ints
    sends: Flags
    peer: Ints
    finished: Flags
    batch: Ints
    created_ns: Ints  # of all rows of the dump

    def __len__(self) -> int:
        return len(self.row)

    def groups(self) -> frozenset[int]:
        """Indexes of the groups in which the rank sends or receives."""
        return frozenset(np.unique(self.group).tolist()) if len(self.row) else frozenset()

    def first_outstanding(self) -> P2p | None:
        """The first, in program order, that has not finished."""
        outstanding = np.flatnonzero(~self.finished)
        return self.at(int(outstanding[0])) if len(outstanding) else None

    def at(self, position: int) -> P2p:
        row, batch = int(self.row[position]), int(self.batch[position])
        return P2p(
            row,
            int(self.group[position]),
            "send" if self.sends[position] else "recv",
            int(self.peer[position]),
            bool(self.finished[position]),
            int(self.created_ns[row]) / 1e9,
            batch if batch >= 0 else None,
        )

    def where(self, mask: Flags) -> Iterator[P2p]:
        """Those that `mask`, of the same shape, chooses."""
        return (self.at(position) for position in np.flatnonzero(mask).tolist())

    def of_kind(self, kind: str) -> Flags:
        """Mask of the sends, or of the receives."""
        return self.sends if kind == "send" else ~self.sends


def p2p_rows(
    columns: FlightColumns, names: tuple[OpName, ...], group: Ints, finished: Flags, batches: Batches
) -> P2pRows:
    """Those whose name says who sends to whom; what a graph captured, and others of its kind passed, is left out."""
    op_of_call = columns.of_calls(CallField.OP)
    peer_of_call = np.array([name.peer for name in names], dtype=np.int64)[op_of_call]
    if not (peer_of_call >= 0).any():
        return _none(columns)
    peers = peer_of_call.take(columns.call)
    rows: Ints = np.flatnonzero(peers >= 0)
    peer = peers.take(rows)
    sends = np.array([name.kind == "send" for name in names], dtype=bool)[op_of_call].take(columns.call.take(rows))
    batch = batches.terminator.take(rows)
    done = finished[rows] | ((batch >= 0) & finished[batch])
    own = group.take(rows)
    kinds = (own * 2 + sends) * (int(peer.max()) + 1) + peer
    which = np.unique(kinds, return_inverse=True)[1] if int(kinds.max()) > FEW_KINDS else kinds
    positions = np.arange(len(rows))
    last = np.full(int(which.max()) + 1, -1, dtype=np.int64)
    last[which[done]] = positions[done]  # of several, numpy keeps the last: they ascend
    kept = done | (positions > last.take(which))
    if kept.all():
        return P2pRows(rows, own, sends, peer, done, batch, columns.created_ns)
    return P2pRows(rows[kept], own[kept], sends[kept], peer[kept], done[kept], batch[kept], columns.created_ns)


def _none(columns: FlightColumns) -> P2pRows:
    nothing, flags = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    return P2pRows(nothing, nothing, flags, nothing, flags, nothing, columns.created_ns)
