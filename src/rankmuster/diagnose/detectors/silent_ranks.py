"""Roots of which neither dump nor log says where they stand: lost with their dump, or only left without one."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.departed import departed
from rankmuster.diagnose.ends import AFTER_SHOCK_SIGNALS
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.roll import Head, RollTable
from rankmuster.diagnose.standing import first_number, standing
from rankmuster.diagnose.wait_graph import Edge, WaitGraph
from rankmuster.diagnose.waits import place
from rankmuster.evidence import flight_json, flight_pickle, names
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""

FLIGHT_READERS = frozenset({flight_json.READER.name, flight_pickle.READER.name})
"""Who reads dumps, by the names that `Evidence.sources` has."""


def unknown_finding(
    context: Context, graph: WaitGraph, heads: dict[int, Head], unknown: dict[int, list[Edge]]
) -> Finding:
    """One finding for all ranks that others wait for and nothing places; it accuses one that all wait for."""
    table = context.table
    absent = tuple(sorted(unknown))
    edges = [edge for found in unknown.values() for edge in found]
    first = _first_waited(table, heads, edges)
    group = table.group(first.group)
    op = heads[first.waiter].op
    entered = tuple(sorted({edge.waiter for edge in edges if (edge.group, edge.seq) == (first.group, first.seq)}))
    text = f"{ranks_text(entered)} {verb(entered, 'waits', 'wait')}"
    if first.seq is not None:
        members = standing(table, graph, first.group, first.seq)
        entered, text = members.entered, members.text()
    speaks = any(rank in table.heads for rank in absent)
    silence = f"neither dump nor log says where {ranks_text(absent)} {verb(absent, 'stands', 'stand')} there"
    if not speaks:
        silence = f"{ranks_text(absent)} left neither dump nor log line"
        if all(_dumped_earlier(context, rank) for rank in absent):
            silence = f"the dump of {ranks_text(absent)} is older than its peers', from when the job moved"
        elif all(_dumped_apart(context, rank) for rank in absent):
            silence = (
                f"what {ranks_text(absent)} left is a dump of another time than its peers': an earlier run's, or the "
                "host's clock is off"
            )
    statement = f"{place(context.table, first)} {op}: {text}; {silence}"
    evidence = references(context, heads, entered, ())
    wanted = _would_settle(context, absent)
    # Whose watchdog wrote a line about its own groups was there.
    subkind = _gone(context, absent[0])
    if speaks:
        subkind = Subkind.MISSING_ENTER if first.seq is not None else Subkind.MISSING_PEER
    others_dumped = all(rank in table.rows for rank in context.world if rank not in absent)
    wrote = any(_wrote_something(context, rank) for rank in absent)
    held = graph.waiting_for(absent) & set(heads)
    busy = _not_started(context, heads, held, first)
    if busy:
        # A kernel starts whoever is absent: a GPU that has not come to it is busy with something before.
        return _busy(context, heads, busy, first, statement, evidence)
    if len(absent) != 1 or len(held) < 2 or not (others_dumped or speaks) or subkind is None or wrote:
        # Half of a job without dumps is a collector's or a network's doing as often as theirs.
        return Finding(NAME, Plane.FLIGHT, statement, evidence, would_decide=wanted)
    # Beside a lost path, or a busy GPU without timing, the dump of an innocent may be missing too.
    by_chance = len(group.members) / max(len(context.world), 1)
    surprising = by_chance <= context.limits.lost_dump_chance or _was_asked(context, absent[0])
    convicts = others_dumped and not speaks and surprising
    accusation = accuse(
        subkind,
        Confidence.LIKELY if convicts else Confidence.POSSIBLE,
        culprits=absent if convicts else (),
        suspects=() if convicts else absent,
        victims=entered,
        why={
            rank: f"left no dump{' of this time' if _dumped_apart(context, rank) else ''}, and all others wait for it "
            f"in {place(context.table, first)}"
            for rank in absent
        },
        scope=Scope.RANK,
        at=max((heads[rank].created for rank in held if heads[rank].created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=first.seq, op=op, missing=absent, entered=entered
        ),
    )
    return Finding(NAME, Plane.FLIGHT, statement, evidence, accusation, would_decide=wanted)


def _not_started(context: Context, heads: dict[int, Head], held: set[int], first: Edge) -> tuple[int, ...]:
    """Of the ranks that stand at the first operation, the few whose GPU has not started it while the others' have."""
    timed = [
        heads[rank]
        for rank in sorted(held)
        if (flight := context.table.rows.get(rank)) is not None
        and flight.has_timing
        and (heads[rank].group, heads[rank].seq) == (first.group, first.seq)
    ]
    waiting = tuple(head.rank for head in timed if not head.started)
    return waiting if 0 < len(waiting) < len(timed) - len(waiting) else ()


def _busy(
    context: Context,
    heads: dict[int, Head],
    busy: tuple[int, ...],
    first: Edge,
    statement: str,
    evidence: tuple[str, ...],
) -> Finding:
    group, where = context.table.group(first.group), place(context.table, first)
    text = f"{statement}. On {ranks_text(busy)} it is scheduled and not started, while the others started it"
    accusation = accuse(
        Subkind.GPU_STALLED,
        Confidence.LIKELY,
        culprits=busy,
        why=dict.fromkeys(busy, f"enqueued {where}, but its GPU is busy with something before it"),
        scope=Scope.RANK,
        at=max((heads[rank].created for rank in busy if heads[rank].created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=first.seq, op=heads[busy[0]].op, entered=group.members
        ),
    )
    return Finding(NAME, Plane.FLIGHT, text, evidence, accusation)


def _would_settle(context: Context, absent: tuple[int, ...]) -> str | None:
    """What is not there yet of these ranks; nothing where they are known to have ended."""
    if all(context.job.rank(rank).exit_code is not None or rank in departed(context) for rank in absent):
        return None
    asked = [] if context.polls else ["RAS (does it answer?)"]
    if any(_dumped_apart(context, rank) for rank in absent):
        asked.append("its host's clock beside its peers'")
    return f"of {ranks_text(absent)}: " + ", ".join([*asked, "the exit code where it ended", "or the dump"])


def _first_waited(table: RollTable, heads: dict[int, Head], edges: list[Edge]) -> Edge:
    """The edge at the first operation that somebody stands at: a group's lowest number, and of several groups the one
    that a member entered first, be it one that has left it again.
    """
    collective = [edge for edge in edges if edge.seq is not None]
    if not collective:
        return min(edges, key=lambda edge: (heads[edge.waiter].created, edge.waiter))
    lowest: dict[int, Edge] = {}
    for edge in sorted(collective, key=lambda edge: (edge.seq or 0, edge.waiter)):
        lowest.setdefault(edge.group, edge)

    def since(edge: Edge) -> float:
        entered = first_number(table, edge.group, (edge.seq or 0) - 1, table.group(edge.group).members)
        return min(entered[1] if entered is not None else float("inf"), heads[edge.waiter].created)

    return min(lowest.values(), key=lambda edge: (since(edge), edge.waiter))


def _was_asked(context: Context, rank: int) -> bool:
    """Whether a collector took the others' dumps and knew of this rank's process: then none was lost, it gave none."""
    others = [facts for facts in context.dump_facts.values() if not facts.stale]
    return context.job.rank(rank).has_exit_facts and all(facts.look_from == "manifest" for facts in others)


def _dumped_earlier(context: Context, rank: int) -> bool:
    facts = context.dump_facts.get(rank)
    return facts is not None and facts.earlier


def _dumped_apart(context: Context, rank: int) -> bool:
    facts = context.dump_facts.get(rank)
    return facts is not None and facts.stale


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
    left = departed(context).get(rank)
    if code is None and left is not None:
        code = left.code
    if code is None:
        return Subkind.UNRESPONSIVE if left is None else Subkind.EXITED
    if code >= 0:
        return Subkind.EXITED
    return None if -code in AFTER_SHOCK_SIGNALS else Subkind.KILLED


def references(
    context: Context, heads: dict[int, Head], entered: tuple[int, ...], missing: tuple[int, ...]
) -> tuple[str, ...]:
    """Entries that `entered` stand at, the last ones of `missing`, and watchdog lines of ranks without a dump."""
    table = context.table
    found = []
    for rank in entered[:4]:
        head = heads.get(rank)
        if rank in table.rows and head is not None and head.row >= 0:
            found.append(table.reference(rank, head.row))
    for rank in missing[:4]:
        flight = table.rows.get(rank)
        if flight is not None and len(flight.dump.columns):
            found.append(table.reference(rank, len(flight.dump.columns) - 1))
    for line in context.timeouts:
        if line.origin.rank in entered and line.origin.rank not in table.rows and len(found) < 10:
            found.append(line.origin.reference)
    return tuple(found)
