"""Ranks that wait for each other in a circle."""

from __future__ import annotations

from rankmuster.diagnose import cycles
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.waits import Reason, WaitGraph, place
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in three files; see `waiting`."""


def cycle(context: Context, graph: WaitGraph) -> list[Finding]:
    ring = tuple(sorted(graph.cycle()))
    if not ring:
        return []
    table = context.table
    odd = cycles.odd_order(table, ring)
    steps = "; ".join(
        f"rank {edge.waiter} waits in {place(context.table, edge)} for rank {edge.target} ({edge.reason.value})"
        for rank in ring
        for edge in graph.edges[rank][:1]
    )
    statement = f"{ranks_text(ring).capitalize()} wait for each other in a circle: {steps}"
    if odd.ranks:
        statement += f". {ranks_text(odd.ranks).capitalize()} went another way than the others: {odd.text}"
    edge = graph.edges[ring[0]][0]
    head = table.heads[edge.waiter]
    accusation = accuse(
        Subkind.ORDER_CYCLE,
        Confidence.LIKELY,
        culprits=odd.ranks,
        suspects=() if odd.ranks else ring,
        victims=tuple(rank for rank in table.heads if rank not in odd.ranks and (odd.ranks or rank not in ring)),
        why=dict.fromkeys(odd.ranks, f"its order of operations differs from the others': {odd.text}"),
        scope=Scope.GROUP,
        divergence=FirstDivergence(
            group=table.group(edge.group).label,
            members=table.group(edge.group).members,
            sequence=edge.seq,
            op=head.op if head else None,
            missing=tuple(e.target for e in graph.edges[ring[0]] if e.reason is Reason.NOT_ENTERED),
            entered=(edge.waiter,),
        ),
    )
    references = tuple(
        table.reference(rank, head.row)
        for rank in ring[:8]
        if (head := table.heads[rank]) is not None and rank in table.rows and head.row >= 0
    )
    return [Finding(NAME, Plane.FLIGHT, statement, references, accusation)]
