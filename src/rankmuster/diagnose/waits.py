"""Who waits for whom: an edge per rank and reason, over all groups, from heads and views alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from rankmuster.diagnose.legal import is_symmetric
from rankmuster.diagnose.messages import left_by_peer
from rankmuster.diagnose.roll import Head, RollTable


class Reason(str, Enum):
    """Why `waiter` cannot go on without `target`."""

    NOT_ENTERED = "not entered"  # the target has not enqueued this collective
    HELD_BEFORE = "held before"  # it has, but stands at an earlier operation
    NO_SEND = "no send"
    NO_RECEIVE = "no receive"
    NO_DUMP = "no dump"  # everybody else has entered; neither dump nor log places this member in the group


@dataclass(frozen=True, slots=True)
class Edge:
    waiter: int
    target: int
    reason: Reason
    group: int
    seq: int | None


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """`edges` per waiter. `older`: (group, rank) whose dump was taken before its peers'."""

    edges: dict[int, tuple[Edge, ...]]
    older: frozenset[tuple[int, int]]

    def reachable(self, start: int) -> set[int]:
        """Everybody `start` waits for, directly or through others."""
        seen: set[int] = set()
        stack = [start]
        while stack:
            for edge in self.edges.get(stack.pop(), ()):
                if edge.target not in seen:
                    seen.add(edge.target)
                    stack.append(edge.target)
        return seen

    def waiting_for(self, targets: Collection[int]) -> set[int]:
        """Everybody who waits for one of `targets`, directly or through others."""
        waiters: dict[int, list[int]] = defaultdict(list)
        for rank, edges in self.edges.items():
            for target in {edge.target for edge in edges}:
                waiters[target].append(rank)
        seen: set[int] = set()
        stack = list(targets)
        while stack:
            for rank in waiters[stack.pop()]:
                if rank not in seen:
                    seen.add(rank)
                    stack.append(rank)
        return seen

    def cycle(self) -> frozenset[int]:
        """The ranks of a cycle that waits for nobody outside it; empty where there is none."""
        nodes = [rank for rank, edges in self.edges.items() if edges]
        reach = {rank: self.reachable(rank) for rank in nodes}
        for rank in sorted(nodes):
            if rank in reach[rank]:
                together = frozenset(other for other in reach[rank] if rank in reach.get(other, ()))
                if reach[rank] <= together:
                    return together
        return frozenset()


def place(table: RollTable, edge: Edge) -> str:
    """`default_pg #751`, or the group alone for sends and receives."""
    group = table.group(edge.group)
    return f"{group.label} #{edge.seq}" if edge.seq is not None else group.label


def build(table: RollTable) -> WaitGraph:
    """The wait-for graph of the moment the dumps were taken."""
    older = _older(table)
    edges: dict[int, tuple[Edge, ...]] = {}
    targets: dict[tuple[int, int], tuple[tuple[int, Reason], ...]] = {}
    for rank, head in table.heads.items():
        flight = table.rows.get(rank)
        if head is None or (flight is not None and flight.head_lost):
            continue
        if head.seq is None:
            edges[rank] = tuple(_p2p_edges(table, head))
            continue
        here = (head.group, head.seq)
        if here not in targets:
            # A job of thousands stands at a few operations: who is missing at one is the same for all who wait there.
            targets[here] = _targets(table, *here, older)
        edges[rank] = tuple(Edge(rank, target, reason, *here) for target, reason in targets[here] if target != rank)
    return WaitGraph(edges, older)


def _older(table: RollTable) -> frozenset[tuple[int, int]]:
    """Members whose last number a peer has passed with a symmetric operation: they entered it after their dump."""
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
        if other is None or (other.group, other.seq) == (key, seq):
            continue
        if view is None or not has_finished(table, key, member, seq):
            found.append((member, Reason.HELD_BEFORE))
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


def _p2p_edges(table: RollTable, head: Head) -> list[Edge]:
    """A receive waits for its sender, a send for its receiver; of a batch, every part does at once."""
    flight = table.rows.get(head.rank)
    if flight is None or head.batch is None:
        return _partner_edges(table, head.rank, head.group, head.kind or "", head.peer, head.row)
    members = table.group(head.group).members
    found: dict[tuple[int, Reason], Edge] = {}
    for entry in flight.p2p.where((flight.p2p.batch == head.batch) & ~flight.p2p.finished):
        peer = members[entry.peer] if 0 <= entry.peer < len(members) else None
        for edge in _partner_edges(table, head.rank, head.group, entry.kind, peer, entry.row):
            found[(edge.target, edge.reason)] = edge
    return list(found.values())


def _partner_edges(table: RollTable, rank: int, group: int, kind: str, peer: int | None, row: int) -> list[Edge]:
    """None where the partner stands at the same exchange: then the two have met and the path is at fault.

    None either where it has finished its part: a send of few bytes leaves before it is received.
    """
    if peer is None or peer == rank:
        return []
    wanted = "send" if kind == "recv" else "recv"
    flight = table.rows.get(peer)
    if flight is None:
        # A log says nothing of sends and receives; only that the rank stands at something else.
        reason = Reason.HELD_BEFORE if table.heads.get(peer) is not None else Reason.NO_DUMP
        return [Edge(rank, peer, reason, group, None)]
    if left_by_peer(table, rank, row, peer, group):
        return []
    members = table.group(group).members
    own_place = members.index(rank) if rank in members else -1
    rows = flight.p2p
    opposite = rows.where(rows.of_kind(wanted) & (rows.peer == own_place) & ~rows.finished)
    outstanding = next((one for one in opposite if table.local_groups.get((peer, one.group)) == group), None)
    if outstanding is None and flight.dump.cut:
        return []
    if outstanding is None:
        missing = Reason.NO_SEND if kind == "recv" else Reason.NO_RECEIVE
        return [Edge(rank, peer, missing, group, None)]
    other = table.heads.get(peer)
    if other is None:
        return []
    together = other.row == outstanding.row or (other.batch is not None and other.batch == outstanding.batch)
    return [] if together else [Edge(rank, peer, Reason.HELD_BEFORE, group, None)]
