"""Roots that stand at nothing: ranks that did not come, and what the first operation was that they are missing from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.silent_ranks import references, unknown_finding
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.roll import Head, RollTable
from rankmuster.diagnose.standing import first_number, standing
from rankmuster.diagnose.wait_graph import Edge, Reason, WaitGraph
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""


def absent(context: Context, graph: WaitGraph, heads: dict[int, Head]) -> list[Finding]:
    """Roots that stand at nothing: free ranks, and ranks of which nothing is known."""
    free: dict[int, list[Edge]] = defaultdict(list)
    unknown: dict[int, list[Edge]] = defaultdict(list)
    for wait in graph.waits():
        for edge in wait.edges():
            if edge.reason is Reason.NO_DUMP:
                unknown[edge.target].append(edge)
            elif context.table.heads.get(edge.target) is None and not _dump_before(context, edge, heads):
                free[edge.target].append(edge)
    found = []
    if free:
        found.append(_free_finding(context, graph, heads, free))
    if unknown and not free:
        found.append(unknown_finding(context, graph, heads, unknown))
    return found


def _dump_before(context: Context, edge: Edge, heads: dict[int, Head]) -> bool:
    """Whether the target's dump is known to be older than the operation it is missed at."""
    facts = context.dump_facts.get(edge.target)
    head = heads.get(edge.waiter)
    if facts is None or facts.look is None or facts.look_from == "newest stamp" or head is None or head.created <= 0:
        return False
    return facts.look < head.created + min(context.limits.tail_seconds, 1.0)


def _free_finding(context: Context, graph: WaitGraph, heads: dict[int, Head], free: dict[int, list[Edge]]) -> Finding:
    table = context.table
    roots = tuple(sorted(free))
    held = graph.waiting_for(roots)
    waiters = tuple(sorted(rank for rank in heads if rank in held))
    edges = [edge for root in roots for edge in free[root]]
    many = len(roots) > len(waiters)
    # A log names one number of a group: several ranks that only logs speak of are odd where they are the fewer.
    several = len(roots) > 1 and len(roots) >= len(waiters)
    unlisted = {root for root in roots if _may_have_sent(table, root, free[root])}
    unsure = tuple(
        root
        for root in roots
        if _may_stand_elsewhere(table, graph, root) or (several and root not in table.rows) or root in unlisted
    )
    gap = _number_gap(context, graph, heads, edges, roots) or _message_gap(table, heads, edges, listed=bool(unlisted))
    statement, phrase = gap.statement, gap.phrase
    last = _last_call(context, gap.missing)
    if last is not None:
        statement += f". The last recorded call of rank {last[0]} was {last[1]}"
    wait = verb(waiters, "waits", "wait")
    why = {root: f"{phrase}, which {ranks_text(waiters)} {wait} for; stands nowhere else" for root in roots}
    for root in unsure:
        doubt = "its log does not say whether it waits elsewhere"
        if root in unlisted:
            doubt = "its dump lists outstanding operations alone, and a send may end before it is received"
        why[root] = f"{phrase}, which {ranks_text(waiters)} {wait} for; {doubt}"
    if many:
        why = dict.fromkeys(waiters, "waits for an operation that most members never entered")
    accusation = accuse(
        gap.subkind,
        Confidence.POSSIBLE if many else Confidence.LIKELY,
        culprits=() if many else tuple(root for root in roots if root not in unsure),
        suspects=waiters if many else unsure,
        victims=() if many else waiters,
        why=why,
        at=max((heads[edge.waiter].created for edge in edges if heads[edge.waiter].created > 0), default=None),
        scope=Scope.RANK,
        divergence=gap.divergence(table),
    )
    return Finding(NAME, Plane.FLIGHT, statement, references(context, heads, gap.entered, gap.missing), accusation)


def _may_have_sent(table: RollTable, rank: int, edges: list[Edge]) -> bool:
    """Whether all that `rank` is waited for is sends that it may have made: a small one ends before it is received.

    A dump of outstanding operations alone does not list it any more. A receive cannot end early, nor a collective.
    """
    flight = table.rows.get(rank)
    if flight is None or any(edge.reason is not Reason.NO_SEND for edge in edges):
        return False
    # One without entries does not tell which kind it is; the switch is the job's.
    empty = not len(flight.dump.columns)
    return flight.dump.only_active or (empty and any(other.dump.only_active for other in table.rows.values()))


def _may_stand_elsewhere(table: RollTable, graph: WaitGraph, rank: int) -> bool:
    """Whether a rank known from its log alone may wait for somebody in a group that the log does not name."""
    if rank in table.rows:
        return False
    others: set[int] = set()
    for group in table.groups:
        if rank in group.members and (group.key, rank) not in table.views:
            others.update(group.members)
    if len(table.groups) > 1:
        # Groups of ranks that all left no dump are in no table.
        others.update(other for other, head in table.heads.items() if head is None and other not in table.rows)
    return bool(others - {rank} - graph.waiting_for((rank,)))


@dataclass(frozen=True, slots=True)
class _Gap:
    """The first operation that `missing` did not take part in. `phrase`: that, behind "rank 2"."""

    group: int
    seq: int | None
    op: str
    missing: tuple[int, ...]
    entered: tuple[int, ...]
    subkind: Subkind
    statement: str
    phrase: str

    def divergence(self, table: RollTable) -> FirstDivergence:
        group = table.group(self.group)
        return FirstDivergence(
            group=group.label,
            members=group.members,
            sequence=self.seq,
            op=self.op,
            missing=self.missing,
            entered=self.entered,
        )


def _number_gap(
    context: Context, graph: WaitGraph, heads: dict[int, Head], edges: list[Edge], roots: tuple[int, ...]
) -> _Gap | None:
    """The first collective that a root is missing from; None where only sends and receives wait for one.

    Within a group the number decides: peers may stand at a later one, having left the first already. Numbers of
    different groups do not compare, times of enqueueing do.
    """
    table = context.table
    waited: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge.seq is not None:
            waited[edge.group].append(edge)
    if not waited:
        return None
    places = []
    for key, here in waited.items():
        known = [table.views[place] for edge in here if (place := (key, edge.target)) in table.views]
        last = min((view.issued for view in known), default=-1)
        peers = tuple(member for member in table.group(key).members if member not in roots)
        lowest = min(edge.seq for edge in here if edge.seq is not None)
        seq, time = first_number(table, key, last, peers) or (lowest, float("inf"))
        if seq >= lowest:
            seq = lowest
            time = min(time, *(heads[edge.waiter].created for edge in here))
        places.append((time, seq, key))
    _, seq, key = min(places)
    group = table.group(key)
    members = standing(table, graph, key, seq)
    missing = tuple(rank for rank in members.missing if rank in roots)
    op = table.op_at(key, seq, members.entered) or heads[waited[key][0].waiter].op
    end = _end(table, key, missing)
    return _Gap(
        key,
        seq,
        op,
        missing,
        members.entered,
        Subkind.MISSING_ENTER,
        f"{group.label} #{seq} {op}: {members.text()}; {ranks_text(missing)} did not enter, {end}",
        f"did not enter {group.label} #{seq}",
    )


def _end(table: RollTable, key: int, missing: tuple[int, ...]) -> str:
    """`ended at #750 and has nothing outstanding in any group`."""
    ends = sorted({table.views[(key, rank)].issued if (key, rank) in table.views else -1 for rank in missing})
    has = verb(missing, "has", "have")
    nothing = f"{has} nothing outstanding in any group"
    if any(rank not in table.rows for rank in missing):
        nothing = f"{has} nothing outstanding that the log names"
    if not ends or ends[0] < 0:
        return f"entered nothing of this group before and {nothing}"
    return f"ended at #{ends[0]}{f' to #{ends[-1]}' if len(ends) > 1 else ''} and {nothing}"


def _message_gap(table: RollTable, heads: dict[int, Head], edges: list[Edge], *, listed: bool) -> _Gap:
    """The first send or receive whose other end a root did not issue; `listed`: of which its dump may list no more."""
    first = min(edges, key=lambda edge: (heads[edge.waiter].created, edge.waiter))
    group = table.group(first.group)
    missing = tuple(sorted({edge.target for edge in edges if edge.group == first.group}))
    entered = tuple(sorted({edge.waiter for edge in edges if edge.group == first.group}))
    op = heads[first.waiter].op
    wanted, given = ("send", "receive") if first.reason is Reason.NO_SEND else ("receive", "send")
    issued = verb(missing, "lists", "list") if listed else "issued"
    return _Gap(
        first.group,
        None,
        op,
        missing,
        entered,
        Subkind.MISSING_PEER,
        f"{ranks_text(entered).capitalize()} in {group.label}: {op} outstanding, and {ranks_text(missing)} "
        f"{verb(missing, 'has', 'have')} nothing outstanding and {issued} no {wanted} for it",
        f"{issued} no {wanted} for the {given} of {ranks_text(entered)} in {group.label}",
    )


def _last_call(context: Context, ranks: tuple[int, ...]) -> tuple[int, str] | None:
    """(rank, frame) of the first of `ranks` whose dump has stacks."""
    for rank in ranks:
        flight = context.table.rows.get(rank)
        if flight is None or not len(flight.dump.columns):
            continue
        index = int(flight.dump.columns.stack[-1])
        if index >= 0:
            frames = [f for f in flight.dump.columns.stacks[index] if "torch/distributed" not in f and f.strip(" :0")]
            if frames:
                return rank, frames[0]
    return None
