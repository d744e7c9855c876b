"""Sends and receives that have met and do not end: other sizes at both ends, a stalled GPU, or the path."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.dump_doubt import TIMING, UNTIMED, asked_for, is_timed
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.legal import elements
from rankmuster.diagnose.messages import left_by_peer
from rankmuster.diagnose.p2p_rows import P2p
from rankmuster.diagnose.roll import Head, RollTable
from rankmuster.diagnose.wait_graph import WaitGraph
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.job import Group
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""


def met(context: Context, graph: WaitGraph, heads: dict[int, Head]) -> list[Finding]:
    """One finding per set of ranks that stand in the same exchange, none of them waiting for anybody else."""
    table = context.table
    partners = {
        rank: _partners(table, head)
        for rank, head in heads.items()
        if head.seq is None and rank in table.rows and not graph.is_held(rank)
    }
    found = []
    seen: set[int] = set()
    for rank in sorted(partners):
        together = _connected(partners, rank) - seen
        seen |= together
        if len(together) > 1 and all(partners[member] <= together for member in together):
            found.append(_finding(context, tuple(sorted(together)), heads))
        elif len(together) == 1 and graph.waiting_for((rank,)) - {rank}:
            found.append(_left_alone(context, rank, partners[rank], heads))
    return found


def _left_alone(context: Context, rank: int, peers: frozenset[int], heads: dict[int, Head]) -> Finding:
    """A rank in an exchange that its peers have left: its own GPU, or what was sent to it did not arrive."""
    table, head = context.table, heads[rank]
    group = table.group(head.group)
    idle = is_timed(table, rank) and not head.started
    statement = (
        f"{group.label}: {ranks_text(tuple(peers))} finished the exchange with rank {rank} and went on; it did not, "
        "though it has enqueued its part, and others wait for it"
    )
    accusation = accuse(
        Subkind.GPU_STALLED,
        Confidence.LIKELY,
        culprits=(rank,) if idle else (),
        suspects=() if idle else (rank,),
        victims=tuple(sorted(other for other in heads if other != rank)),
        why={rank: f"stands alone at a {head.op} in {group.label} that its peers have finished"},
        scope=Scope.RANK,
        at=head.created or None,
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=None, op=head.op, missing=(), entered=(rank,)
        ),
    )
    return Finding(NAME, Plane.FLIGHT, statement, (table.reference(rank, head.row),), accusation)


def _entries(table: RollTable, head: Head) -> list[P2p]:
    """The unfinished sends and receives that `head` stands at: one, or a batch."""
    rows = table.rows[head.rank].p2p
    here = rows.row == head.row if head.batch is None else (rows.row == head.row) | (rows.batch == head.batch)
    return list(rows.where(here & ~rows.finished))


def _partners(table: RollTable, head: Head) -> frozenset[int]:
    """Ranks at the other ends; those that have finished their part are past it, unless all of them are."""
    members = table.group(head.group).members
    ends = [(entry.row, members[entry.peer]) for entry in _entries(table, head) if 0 <= entry.peer < len(members)]
    ends = [(row, peer) for row, peer in ends if peer != head.rank]
    present = {
        peer
        for row, peer in ends
        if peer not in table.rows or not left_by_peer(table, head.rank, row, peer, head.group)
    }
    return frozenset(present or {peer for _, peer in ends})


def _connected(partners: dict[int, frozenset[int]], start: int) -> set[int]:
    seen = {start}
    stack = [start]
    while stack:
        for peer in partners[stack.pop()]:
            if peer in partners and peer not in seen:
                seen.add(peer)
                stack.append(peer)
    return seen


def _finding(context: Context, ranks: tuple[int, ...], heads: dict[int, Head]) -> Finding:
    table = context.table
    here = [heads[rank] for rank in ranks]
    group = table.group(here[0].group)
    references = tuple(table.reference(head.rank, head.row) for head in here[:8])
    at = max((head.created for head in here if head.created > 0), default=None)
    divergence = FirstDivergence(
        group=group.label, members=group.members, sequence=None, op=here[0].op, missing=(), entered=ranks
    )
    clash = _sizes(table, group, here)
    if clash is not None:
        sender, receiver, sent, wanted = clash
        statement = f"{group.label}: rank {sender} sends {sent} elements, rank {receiver} expects {wanted}"
        accusation = accuse(
            Subkind.SIZE_MISMATCH,
            Confidence.LIKELY,
            suspects=tuple(sorted((sender, receiver))),
            why={
                sender: f"sends {sent} elements to rank {receiver}, which expects {wanted}",
                receiver: f"expects {wanted} elements of rank {sender}, which sends {sent}",
            },
            scope=Scope.GROUP,
            at=at,
            divergence=divergence,
        )
        return Finding(NAME, Plane.FLIGHT, statement, references, accusation)
    timed = all(is_timed(table, rank) for rank in ranks)
    waiting = tuple(head.rank for head in here if not head.started) if timed else ()
    running = tuple(head.rank for head in here if head.started)
    if waiting and (len(waiting) < len(running) or len(waiting) == len(running) == 1):
        statement = (
            f"{group.label}: {ranks_text(running)} started an exchange and {verb(running, 'waits', 'wait')} in it; on "
            f"{ranks_text(waiting)} it is scheduled and not started: the GPU is busy with something before it"
        )
        accusation = accuse(
            Subkind.GPU_STALLED,
            Confidence.LIKELY,
            culprits=waiting,
            victims=running,
            why=dict.fromkeys(waiting, f"enqueued its part of an exchange in {group.label}, and has not started it"),
            scope=Scope.RANK,
            at=at,
            divergence=divergence,
        )
        return Finding(NAME, Plane.FLIGHT, statement, references, accusation)
    hosts = context.job.hosts(ranks)
    accusation = accuse(
        Subkind.ALL_ENTERED_NONE_LEFT,
        Confidence.LIKELY if timed else Confidence.POSSIBLE,
        victims=ranks,
        hosts=hosts if len(hosts) > 1 else (),
        scope=Scope.GROUP,
        at=at,
        divergence=divergence,
    )
    statement = f"{group.label}: {ranks_text(ranks)} stand in one exchange, all parts of it enqueued, and none left"
    decides = "link and NIC error counters, NCCL's log, RAS from every node: who moves no bytes"
    if not timed:
        statement += UNTIMED
        decides = f"{TIMING}; {decides}"
    return Finding(
        NAME,
        Plane.FLIGHT,
        statement,
        references,
        None if asked_for(context, ranks) else accusation,
        would_decide=decides,
    )


def _sizes(table: RollTable, group: Group, here: list[Head]) -> tuple[int, int, int, int] | None:
    """(sender, receiver, elements sent, elements expected) of the first exchange whose ends disagree."""
    sent: dict[tuple[int, int], int] = {}
    expected: dict[tuple[int, int], int] = {}
    for head in here:
        columns = table.rows[head.rank].dump.columns
        own = group.members.index(head.rank) if head.rank in group.members else -1
        for entry in _entries(table, head):
            column = columns.in_sizes if entry.kind == "send" else columns.out_sizes
            total = sum(map(elements, columns.sizes[int(column[entry.row])]))
            ends = (own, entry.peer) if entry.kind == "send" else (entry.peer, own)
            # The first of several messages between two ranks is the one that both stand at.
            (sent if entry.kind == "send" else expected).setdefault(ends, total)
    for ends, total in sorted(sent.items()):
        if ends in expected and expected[ends] != total:
            sender, receiver = (group.members[place] for place in ends)
            return sender, receiver, total, expected[ends]
    return None
