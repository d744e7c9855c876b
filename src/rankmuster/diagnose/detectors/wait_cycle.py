"""Ranks that wait for each other in a circle."""

from __future__ import annotations

from rankmuster.diagnose import cycles
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.standing import standing
from rankmuster.diagnose.wait_graph import Reason, WaitGraph
from rankmuster.diagnose.waits import place
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""

SHOWN = 8
"""Ranks of a circle that are told one by one; a circle through a job of thousands is as long."""


def cycle(context: Context, graph: WaitGraph) -> list[Finding]:
    """One finding for the ring that waits for nobody outside it."""
    ring = tuple(sorted(graph.cycle()))
    if not ring:
        return []
    table = context.table
    odd = cycles.odd_order(table, ring)
    steps = "; ".join(
        f"rank {edge.waiter} waits in {place(context.table, edge)} for rank {edge.target} ({edge.reason.value})"
        for rank in ring[:SHOWN]
        for edge in graph.edges_of(rank)[:1]
    )
    if len(ring) > SHOWN:
        steps += f"; and so on, over {len(ring)} ranks"
    statement = f"{ranks_text(ring).capitalize()} wait for each other in a circle: {steps}"
    if odd.ranks:
        statement += f". {ranks_text(odd.ranks).capitalize()} went another way than the others: {odd.text}"
    accusation = accuse(
        Subkind.ORDER_CYCLE,
        Confidence.LIKELY,
        culprits=odd.ranks,
        suspects=() if odd.ranks else ring,
        victims=tuple(rank for rank in table.heads if rank not in odd.ranks and (odd.ranks or rank not in ring)),
        why=dict.fromkeys(odd.ranks, f"went another way than the others: {odd.text}")
        or dict.fromkeys(ring, f"waits in a circle with {verb(ring[1:], 'its peer', 'its peers')}"),
        scope=Scope.GROUP,
        divergence=_divergence(table, graph, ring, odd.ranks),
    )
    references = tuple(
        table.reference(rank, head.row)
        for rank in ring[:8]
        if (head := table.heads[rank]) is not None and rank in table.rows and head.row >= 0
    )
    return [Finding(NAME, Plane.FLIGHT, statement, references, accusation)]


def _divergence(table: RollTable, graph: WaitGraph, ring: tuple[int, ...], odd: tuple[int, ...]) -> FirstDivergence:
    """The operation that was waited in first: for the odd rank, where one is known, else for anybody of the ring."""
    wanted = frozenset(odd or ring)
    edges = [edge for wait in graph.waits(ring) for edge in wait.edges(ring) if edge.target in wanted]
    edge = min(edges, key=lambda edge: (_created(table, edge.waiter), edge.waiter))
    group, head = table.group(edge.group), table.heads[edge.waiter]
    here = [one for one in edges if (one.group, one.seq) == (edge.group, edge.seq)]
    entered = tuple(sorted({one.waiter for one in here}))
    missing = tuple(sorted({one.target for one in here if odd or one.reason is Reason.NOT_ENTERED}))
    if edge.seq is not None:
        entered = standing(table, graph, edge.group, edge.seq).entered
    return FirstDivergence(
        group=group.label,
        members=group.members,
        sequence=edge.seq,
        op=head.op if head is not None else None,
        missing=missing,
        entered=tuple(rank for rank in entered if rank not in missing),
    )


def _created(table: RollTable, rank: int) -> float:
    head = table.heads.get(rank)
    return head.created if head is not None else float("inf")
