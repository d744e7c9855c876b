"""Which send belongs to which receive: by their order between two ranks, which no dump numbers for us.

`p2p_seq_id` counts a rank's own sends and receives of a group. It is common to both ends in a group of two only; where
a dump holds everything from its first record on, counting does; else the times must say it.
"""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.p2p_rows import P2p
from rankmuster.diagnose.roll import RollTable


def left_by_peer(table: RollTable, rank: int, row: int, peer: int, group: int) -> bool:
    """Whether `peer` is known to have finished its part of the exchange at `row` of `rank`'s dump."""
    own, other = table.rows[rank], table.rows[peer]
    members = table.group(group).members
    entry = next(own.p2p.where(own.p2p.row == row), None)
    if entry is None or rank not in members or peer not in members:
        return False
    wanted = "send" if entry.kind == "recv" else "recv"
    mine = _between(table, own, rank, group, entry.kind, members.index(peer))
    theirs = _between(table, other, peer, group, wanted, members.index(rank))
    if own.dump.from_the_first and other.dump.from_the_first:
        place = [one.row for one in mine].index(row)
        return place < len(theirs) and theirs[place].finished
    if len(members) == 2:
        number = int(own.dump.columns.p2p_seq[row])
        return any(one.finished and int(other.dump.columns.p2p_seq[one.row]) == number for one in theirs)
    done = [one.created for one in theirs if one.finished]
    before = [one for one in mine if one.finished]
    ended = float(own.dump.columns.completed_ns[_mover(before[-1])]) / 1e9 if before else 0.0
    # The recorder sees an end late, never early: what was issued after it belongs to a later exchange.
    return ended > 0 and bool(done) and done[-1] > ended


def _between(table: RollTable, flight: FlightRows, rank: int, group: int, kind: str, peer: int) -> list[P2p]:
    """In program order."""
    rows = flight.p2p
    own = [index for index in rows.groups() if table.local_groups.get((rank, index)) == group]
    return list(rows.where(rows.of_kind(kind) & (rows.peer == peer) & np.isin(rows.group, own)))


def _mover(entry: P2p) -> int:
    """The row whose state moves: of a batch, its terminator."""
    return entry.row if entry.batch is None else entry.batch
