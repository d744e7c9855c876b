"""Roots that stand at nothing: ranks that did not come, and ranks of which neither dump nor log says anything."""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.ends import AFTER_SHOCK_SIGNALS
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.roll import Head
from rankmuster.diagnose.waits import Edge, Reason, WaitGraph, place
from rankmuster.evidence import flight_json, flight_pickle, names
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""

FLIGHT_READERS = frozenset({flight_json.READER.name, flight_pickle.READER.name})
"""Who reads dumps, by the names that `Evidence.sources` has."""


def absent(context: Context, graph: WaitGraph, heads: dict[int, Head]) -> list[Finding]:
    """Roots that stand at nothing: free ranks, and ranks of which nothing is known."""
    free: dict[int, list[Edge]] = defaultdict(list)
    unknown: dict[int, list[Edge]] = defaultdict(list)
    for edges in graph.edges.values():
        for edge in edges:
            if edge.reason is Reason.NO_DUMP:
                unknown[edge.target].append(edge)
            elif context.table.heads.get(edge.target) is None and not _dump_before(context, edge, heads):
                free[edge.target].append(edge)
    found = []
    if free:
        found.append(_free_finding(context, graph, heads, free))
    if unknown and not free:
        found.append(_unknown_finding(context, graph, heads, unknown))
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
    waiters = tuple(sorted(rank for rank in heads if graph.reachable(rank) & set(roots)))
    edges = [edge for root in roots for edge in free[root]]
    collective = [edge for edge in edges if edge.seq is not None]
    first = min(collective or edges, key=lambda edge: _earliest(heads, edge))
    group = table.group(first.group)
    missing = tuple(sorted({e.target for e in edges if e.group == first.group and e.seq == first.seq}))
    entered = tuple(sorted({e.waiter for e in edges if e.group == first.group and e.seq == first.seq}))
    many = len(roots) > len(waiters)
    if first.seq is None:
        subkind, op = Subkind.MISSING_PEER, heads[first.waiter].op
        wants = "a send" if first.reason is Reason.NO_SEND else "a receive"
        statement = (
            f"{ranks_text(entered).capitalize()} in {group.label}: {op} outstanding, and {ranks_text(missing)} has "
            f"nothing outstanding and issued no {wants.split()[-1]} for it"
        )
    else:
        subkind = Subkind.MISSING_ENTER
        op = table.op_at(first.group, first.seq, entered) or heads[first.waiter].op
        last = max(
            (table.views[(first.group, rank)].issued for rank in missing if (first.group, rank) in table.views),
            default=-1,
        )
        statement = (
            f"{group.label} #{first.seq} {op}: {ranks_text(entered)} entered; {ranks_text(missing)} did not, "
            f"ended at #{last} and has nothing outstanding in any group"
        )
    where = _stack_of(context, missing)
    if where:
        statement += f". Its last recorded call was {where}"
    accusation = accuse(
        subkind,
        Confidence.POSSIBLE if many else Confidence.LIKELY,
        culprits=() if many else roots,
        suspects=waiters if many else (),
        victims=() if many else waiters,
        why=dict.fromkeys(waiters, "waits for an operation that most members never entered")
        if many
        else dict.fromkeys(
            roots,
            f"did not enter {place(context.table, first)}, which {ranks_text(waiters)} wait for; stands nowhere else",
        ),
        at=max((heads[edge.waiter].created for edge in edges if heads[edge.waiter].created > 0), default=None),
        scope=Scope.RANK,
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=first.seq, op=op, missing=missing, entered=entered
        ),
    )
    return Finding(NAME, Plane.FLIGHT, statement, _references(context, heads, entered, missing), accusation)


def _earliest(heads: dict[int, Head], edge: Edge) -> tuple[float, int, int]:
    """Order in which operations were missed: numbers of different groups do not compare, times of enqueueing do."""
    return (heads[edge.waiter].created, edge.seq if edge.seq is not None else 0, edge.waiter)


def _references(
    context: Context, heads: dict[int, Head], entered: tuple[int, ...], missing: tuple[int, ...]
) -> tuple[str, ...]:
    table = context.table
    found = []
    for rank in entered[:4]:
        if rank in table.rows and heads[rank].row >= 0:
            found.append(table.reference(rank, heads[rank].row))
    for rank in missing[:4]:
        flight = table.rows.get(rank)
        if flight is not None and len(flight.dump.columns):
            found.append(table.reference(rank, len(flight.dump.columns) - 1))
    for line in context.timeouts:
        if line.origin.rank in entered and line.origin.rank not in table.rows and len(found) < 10:
            found.append(f"{line.origin.source}#L{line.origin.line}")
    return tuple(found)


def _stack_of(context: Context, ranks: tuple[int, ...]) -> str | None:
    for rank in ranks:
        flight = context.table.rows.get(rank)
        if flight is None or not len(flight.dump.columns):
            continue
        index = int(flight.dump.columns.stack[-1])
        if index >= 0:
            frames = [f for f in flight.dump.columns.stacks[index] if "torch/distributed" not in f and f.strip(" :0")]
            if frames:
                return frames[0]
    return None


def _unknown_finding(
    context: Context, graph: WaitGraph, heads: dict[int, Head], unknown: dict[int, list[Edge]]
) -> Finding:
    table = context.table
    absent = tuple(sorted(unknown))
    edges = [edge for found in unknown.values() for edge in found]
    collective = [edge for edge in edges if edge.seq is not None]
    first = min(collective or edges, key=lambda edge: (edge.seq if edge.seq is not None else 0, edge.waiter))
    group = table.group(first.group)
    entered = tuple(sorted({edge.waiter for edge in edges}))
    op = heads[first.waiter].op
    statement = (
        f"{place(context.table, first)} {op}: every member that left a dump or a log line entered and waits "
        f"({ranks_text(entered)}); {ranks_text(absent)} left neither"
    )
    evidence = _references(context, heads, entered, ())
    wanted = "RAS (does the absent rank's process answer?), its exit code, or its dump"
    subkind = _gone(context, absent[0])
    others_dumped = all(rank in table.rows for rank in context.world if rank not in absent)
    wrote = any(_wrote_something(context, rank) for rank in absent)
    held = [rank for rank in heads if graph.reachable(rank) & set(absent)]
    if len(absent) != 1 or len(held) < 2 or not others_dumped or subkind is None or wrote:
        # Half of a job without dumps is a collector's or a network's doing as often as theirs.
        return Finding(NAME, Plane.FLIGHT, statement, evidence, would_decide=wanted)
    accusation = accuse(
        subkind,
        Confidence.LIKELY,
        culprits=absent,
        victims=entered,
        why={rank: f"left no dump, and all others wait for it in {place(context.table, first)}" for rank in absent},
        scope=Scope.RANK,
        at=max((heads[rank].created for rank in entered if heads[rank].created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=first.seq, op=op, missing=absent, entered=entered
        ),
    )
    return Finding(NAME, Plane.FLIGHT, statement, evidence, accusation, would_decide=wanted)


def _wrote_something(context: Context, rank: int) -> bool:
    """Whether the rank left a dump that says nothing: empty, unreadable or refused. One of an earlier run is none."""
    facts = context.dump_facts.get(rank)
    if facts is not None:
        return not facts.stale
    dumps = {source.rpartition("/")[0] for source in (one.source for one in context.dump_facts.values())}
    return any(
        names.rank_of(source.path) == rank
        and (FLIGHT_READERS & set(source.readers) or (not source.size and source.path.rpartition("/")[0] in dumps))
        for source in context.evidence.sources
    )


def _gone(context: Context, rank: int) -> Subkind | None:
    """What a rank without a dump is called: its exit, whenever it was, says how; a victim's signal says nothing."""
    code = context.job.rank(rank).exit_code
    if code is None:
        return Subkind.UNRESPONSIVE
    if code >= 0:
        return Subkind.EXITED
    return None if -code in AFTER_SHOCK_SIGNALS else Subkind.KILLED
