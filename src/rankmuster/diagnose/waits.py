"""Who waits for whom: an edge per rank and reason, over all groups, from heads and views alone."""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.legal import is_symmetric
from rankmuster.diagnose.messages import left_by_peer
from rankmuster.diagnose.roll import Head, RollTable
from rankmuster.diagnose.wait_graph import Edge, Reason, Wait, WaitGraph


def place(table: RollTable, edge: Edge) -> str:
    """`default_pg #751`, or the group alone for sends and receives."""
    group = table.group(edge.group)
    return f"{group.label} #{edge.seq}" if edge.seq is not None else group.label


def build(table: RollTable) -> WaitGraph:
    """The wait-for graph of the moment the dumps were taken."""
    older = passed(table)
    of: dict[int, Wait] = {}
    standing: dict[tuple[int, int], list[Head]] = defaultdict(list)
    for rank, head in table.heads.items():
        flight = table.rows.get(rank)
        if head is None or (flight is not None and flight.head_lost):
            continue
        if head.seq is None:
            of[rank] = Wait(head.group, None, (rank,), _p2p_targets(table, head))
        else:
            standing[(head.group, head.seq)].append(head)
    for (group, seq), heads in standing.items():
        waiters = tuple(head.rank for head in sorted(heads, key=lambda head: (head.created, head.rank)))
        wait = Wait(group, seq, waiters, _targets(table, group, seq, older))
        of.update(dict.fromkeys(waiters, wait))
    return WaitGraph(of, older)


def passed(table: RollTable) -> frozenset[tuple[int, int]]:
    """(group, rank) of members whose last number a peer has passed with a symmetric operation.

    They entered that after their dump, which is older than the peer's.
    """
    found = set()
    furthest: dict[int, int] = defaultdict(lambda: -1)
    for (key, rank), view in table.views.items():
        flight = table.rows.get(rank)
        if view.from_log or flight is None or not flight.has_events:
            continue
        roll = table.rolls.get((key, rank))
        position = roll.at(view.finished) if roll is not None else None
        if roll is None or position is None:
            continue
        if is_symmetric(table.signatures[int(roll.signature[position])].op):
            furthest[key] = max(furthest[key], view.finished)
    for (key, rank), view in table.views.items():
        if not view.from_log and view.issued < furthest[key]:
            found.add((key, rank))
    return frozenset(found)


def _targets(table: RollTable, key: int, seq: int, older: frozenset[tuple[int, int]]) -> tuple[tuple[int, Reason], ...]:
    """Whom a rank that stands at `seq` of the group waits for."""
    found: list[tuple[int, Reason]] = []
    unknown: list[tuple[int, Reason]] = []
    left = False
    for member in table.group(key).members:
        view = table.views.get((key, member))
        if view is None and (key, member) in table.unplaced:
            continue
        if view is None and member not in table.rows:
            # Its log may speak of other groups; that it is silent of this one proves nothing.
            stands = table.heads.get(member) is not None
            unknown.append((member, Reason.HELD_BEFORE if stands else Reason.NO_DUMP))
            continue
        issued = view.issued if view is not None else -1
        if issued < seq:
            if (key, member) not in older and not _is_cut(table, member):
                found.append((member, Reason.NOT_ENTERED))
            continue
        other = table.heads.get(member)
        if other is not None and (other.group, other.seq) == (key, seq):
            continue
        if view is not None and has_finished(table, key, member, seq):
            left = True
        elif other is not None:
            found.append((member, Reason.HELD_BEFORE))
    if left and not found and is_symmetric(table.op_at(key, seq, table.group(key).members) or ""):
        # Nobody leaves it before everybody has come: those of whom nothing is known have been there.
        return ()
    found.sort(key=lambda item: item[1] is Reason.HELD_BEFORE)
    return tuple(found or unknown)


def _is_cut(table: RollTable, rank: int) -> bool:
    """Whether what the rank did last may have stood behind the end of its file."""
    flight = table.rows.get(rank)
    return flight is not None and flight.dump.cut


def has_finished(table: RollTable, key: int, rank: int, seq: int) -> bool:
    """Whether the rank has left that operation."""
    roll = table.rolls.get((key, rank))
    position = roll.at(seq) if roll is not None else None
    if roll is not None and position is not None:
        return bool(roll.finished[position])
    view = table.views.get((key, rank))
    return view is not None and view.finished >= seq


def _p2p_targets(table: RollTable, head: Head) -> tuple[tuple[int, Reason], ...]:
    """A receive waits for its sender, a send for its receiver; of a batch, every part does at once."""
    flight = table.rows.get(head.rank)
    if flight is None or head.batch is None:
        reason = _partner(table, head.rank, head.group, head.kind or "", head.peer, head.row)
        return ((head.peer, reason),) if head.peer is not None and reason is not None else ()
    members = table.group(head.group).members
    found: dict[tuple[int, Reason], None] = {}
    for entry in flight.p2p.where((flight.p2p.batch == head.batch) & ~flight.p2p.finished):
        peer = members[entry.peer] if 0 <= entry.peer < len(members) else None
        reason = _partner(table, head.rank, head.group, entry.kind, peer, entry.row)
        if peer is not None and reason is not None:
            found[(peer, reason)] = None
    return tuple(found)


def _partner(table: RollTable, rank: int, group: int, kind: str, peer: int | None, row: int) -> Reason | None:
    """Why `rank` waits for `peer`.

    None where the partner stands at the same exchange: then the two have met and the path is at fault. None either
    where it has finished its part: a send of few bytes leaves before it is received.
    """
    if peer is None or peer == rank:
        return None
    wanted = "send" if kind == "recv" else "recv"
    flight = table.rows.get(peer)
    if flight is None:
        # A log says nothing of sends and receives; only that the rank stands at something else.
        return Reason.HELD_BEFORE if table.heads.get(peer) is not None else Reason.NO_DUMP
    if left_by_peer(table, rank, row, peer, group):
        return None
    members = table.group(group).members
    own_place = members.index(rank) if rank in members else -1
    rows = flight.p2p
    opposite = rows.where(rows.of_kind(wanted) & (rows.peer == own_place) & ~rows.finished)
    outstanding = next((one for one in opposite if table.local_groups.get((peer, one.group)) == group), None)
    if outstanding is None and flight.dump.cut:
        return None
    if outstanding is None:
        return Reason.NO_SEND if kind == "recv" else Reason.NO_RECEIVE
    other = table.heads.get(peer)
    if other is None:
        return None
    together = other.row == outstanding.row or (other.batch is not None and other.batch == outstanding.batch)
    return None if together else Reason.HELD_BEFORE
