"""Operations that every member entered and at which some still stand: a stalled GPU, or the path itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.dump_doubt import TIMING, UNTIMED, asked_for, is_timed, taken_after
from rankmuster.diagnose.detectors.mismatch import differs_before, split
from rankmuster.diagnose.finding import Finding, accuse, verb
from rankmuster.diagnose.legal import is_symmetric
from rankmuster.diagnose.log_rolls import op_name
from rankmuster.diagnose.roll import Head
from rankmuster.diagnose.wait_graph import WaitGraph
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import WatchdogTimeout
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in several files; see `waiting`."""

SECOND_SET = "a second set of dumps some seconds later"

TOLD = 8
"""Groups that stand as a whole which are told one by one."""


@dataclass(frozen=True, slots=True)
class _Stall:
    """`stalled` stand at an operation that `others` have finished, or have started and wait in.

    `elsewhere`: whether further ranks wait for `stalled`, in whatever group.
    """

    group: int
    seq: int
    op: str
    stalled: tuple[int, ...]
    others: tuple[int, ...]
    here: tuple[Head, ...]
    finished: bool
    elsewhere: bool = False


def together(context: Context, graph: WaitGraph, heads: dict[int, Head]) -> list[Finding]:
    """Operations that every member has entered and at which some still stand, waiting for nobody."""
    table = context.table
    standing: dict[tuple[int, int], list[Head]] = defaultdict(list)
    for rank, head in heads.items():
        if head.seq is not None and not graph.is_held(rank):
            standing[(head.group, head.seq)].append(head)
    found = []
    whole: list[Finding] = []
    stalls: list[_Stall] = []
    for (key, seq), here in sorted(standing.items()):
        group = table.group(key)
        op = here[0].op
        ranks = tuple(sorted(head.rank for head in here))
        if any((key, member) in graph.older for member in group.members):
            continue
        gone = tuple(
            member
            for member in group.members
            if member not in ranks and (view := table.views.get((key, member))) is not None and view.finished >= seq
        )
        if gone:
            fewer = len(ranks) < len(gone) or (len(ranks) == len(gone) == 1)
            if is_symmetric(op) and fewer and _awaited(graph, ranks):
                elsewhere = bool(graph.waiting_for(ranks) - set(ranks) - set(gone))
                stalls.append(_Stall(key, seq, op, ranks, gone, tuple(here), finished=True, elsewhere=elsewhere))
            continue
        if len(group.members) == 1:
            # Nobody else can hold it up, where it is known that there is nobody else.
            if group.inferred:
                continue
            if _awaited(graph, ranks):
                stalls.append(_Stall(key, seq, op, ranks, (), tuple(here), finished=False))
            continue
        timed = [head for head in here if is_timed(table, head.rank)]
        waiting = tuple(sorted(head.rank for head in timed if not head.started))
        running = tuple(sorted(head.rank for head in timed if head.started))
        odd = len(waiting) < len(running) or (len(waiting) == len(running) == 1)
        if waiting and running and odd and len(timed) == len(group.members):
            stalls.append(_Stall(key, seq, op, waiting, running, tuple(here), finished=False))
        elif len(ranks) == len(group.members) and len(ranks) > 1:
            differing = _log_mismatch(context, key, seq, here)
            if differing is not None:
                found.append(differing)
            elif not differs_before(table, group, seq):
                whole.append(path(context, key, seq, op, ranks, here))
    found += _first_of(whole)
    return ([_stalled(context, stalls)] if stalls else []) + found


def _first_of(whole: list[Finding]) -> list[Finding]:
    """The groups that stood first, and how many more: in a stopped job of thousands nearly every one stands."""
    if len(whole) <= TOLD:
        return whole
    since = [finding.accusation.at if finding.accusation is not None else None for finding in whole]
    order = sorted(range(len(whole)), key=lambda place: (since[place] is None, since[place] or 0.0, place))
    told = [whole[place] for place in sorted(order[:TOLD])]
    statement = f"{len(whole) - TOLD} more groups stand alike: all their members entered one operation and none left it"
    return [*told, Finding(NAME, Plane.FLIGHT, statement, ())]


def _certain(context: Context, stall: _Stall) -> bool:
    # Of two ranks, one that has finished and one that has not: a call that differed does the same, and without both
    # dumps nobody can tell that none did.
    alone = len(stall.stalled) >= len(stall.others)
    if stall.finished and alone:
        both = (*stall.stalled, *stall.others)
        if not all(rank in context.table.rows for rank in both):
            return False
        # Nor where no third rank waits, and dumps of outstanding operations alone do not tell when the others ended.
        if not stall.elsewhere and all(context.table.rows[rank].dump.only_active for rank in both):
            return False
    # A stopped rank and a slightly older dump look the same where it ends exactly at what its peers have finished; a
    # whole dump would show that the job moved, one of outstanding operations alone cannot.
    if stall.finished and any(_ends_here(context, stall, rank) for rank in stall.stalled):
        return False
    return not stall.finished or taken_after(context, stall.group, stall.seq, stall.stalled, stall.others)


def _ends_here(context: Context, stall: _Stall, rank: int) -> bool:
    """Whether a dump of outstanding operations alone ends, in this group, with the one that its rank stands at."""
    flight, view = context.table.rows.get(rank), context.table.views.get((stall.group, rank))
    return flight is not None and flight.dump.only_active and view is not None and view.issued <= stall.seq


def _awaited(graph: WaitGraph, ranks: tuple[int, ...]) -> bool:
    """Whether a peer stands still for one of `ranks`; where nobody does, its dump is only a moment older."""
    return bool(graph.waiting_for(ranks) - set(ranks))


def _stalled(context: Context, stalls: list[_Stall]) -> Finding:
    """One finding for all GPUs that stand at operations of their own: none of them waits for another."""
    table = context.table
    statements = []
    why: dict[int, str] = {}
    for stall in stalls:
        place = f"{table.group(stall.group).label} #{stall.seq} {stall.op}"
        others, stalled = ranks_text(stall.others), ranks_text(stall.stalled)
        if not stall.others:
            what = f"{stalled} alone is in this group, and does not come to its end"
        elif stall.finished:
            what = f"{others} finished it and {stalled} did not, though it was enqueued there too"
        else:
            what = (
                f"{others} started it and {verb(stall.others, 'waits', 'wait')}; on {stalled} it is scheduled and not "
                "started: "
                "the GPU is busy with something before it"
            )
        statements.append(f"{place}: {what}")
        for rank in stall.stalled:
            why.setdefault(rank, f"enqueued {place}, but its stream has not come to its end")
    unsure = tuple(rank for rank in sorted(why) if not any(_certain(context, s) for s in stalls if rank in s.stalled))
    for rank in unsure:
        why[rank] += "; its dump may be a moment older than its peers', or an earlier call may have differed"
    here = [head for stall in stalls for head in stall.here]
    first = min(stalls, key=lambda stall: min(head.created for head in stall.here))
    group = table.group(first.group)
    accusation = accuse(
        Subkind.GPU_STALLED,
        Confidence.LIKELY,
        culprits=tuple(rank for rank in sorted(why) if rank not in unsure),
        suspects=unsure,
        victims=tuple(sorted({rank for stall in stalls for rank in stall.others} - set(why))),
        why=why,
        scope=Scope.RANK,
        at=max((head.created for head in here if head.created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=first.seq, op=first.op, missing=(), entered=group.members
        ),
    )
    references = tuple(
        table.reference(head.rank, head.row) for head in here if head.row >= 0 and head.rank in table.rows
    )
    if all(stall.finished and asked_for(context, (*stall.stalled, *stall.others)) for stall in stalls):
        # A moving job whose dumps were taken one after another looks the same.
        statements.append("a dump taken a moment before its peers' shows the same: its backend writes none by itself")
        return Finding(NAME, Plane.FLIGHT, "; ".join(statements), references[:16], would_decide=SECOND_SET)
    return Finding(NAME, Plane.FLIGHT, "; ".join(statements), references[:16], accusation)


def _log_mismatch(context: Context, key: int, seq: int, here: list[Head]) -> Finding | None:
    """Ranks whose watchdogs timed out at one number in different operations or sizes."""
    group = context.table.group(key)
    present = {head.rank for head in here}
    said: dict[int, WatchdogTimeout] = {
        line.origin.rank: line
        for line in context.timeouts
        if line.origin.rank in present and line.seq == seq and line.op is not None
    }
    if len(said) < 2 or any(rank in context.table.rows for rank in said):
        return None
    ops = {rank: op_name(line.op) for rank, line in said.items()}
    sizes = {rank: line.numel_in for rank, line in said.items() if line.numel_in is not None}
    by: dict[int, object]
    if len(set(ops.values())) > 1:
        subkind, by = Subkind.OP_MISMATCH, dict(ops)
    elif len(set(sizes.values())) > 1 and all(name in ("all_reduce", "broadcast") for name in ops.values()):
        subkind, by = Subkind.SIZE_MISMATCH, dict(sizes)
    else:
        return None
    majority, odd = split(by)
    text = "; ".join(
        f"{ranks_text([rank for rank, own in by.items() if own == what])}: {what}"
        for what in dict.fromkeys(by.values())
    )
    return Finding(
        NAME,
        Plane.FRAMEWORK_LOG,
        f"{group.label} #{seq}: the watchdogs timed out in different calls: {text}",
        tuple(line.origin.reference for line in list(said.values())[:6]),
        accuse(
            subkind,
            Confidence.LIKELY,
            culprits=odd,
            suspects=() if odd else tuple(sorted(by)),
            victims=tuple(rank for rank in majority if odd),
            why=dict.fromkeys(odd, f"timed out in another call than the others as {group.label} #{seq}"),
            scope=Scope.RANK if odd else Scope.GROUP,
            divergence=FirstDivergence(
                group=group.label,
                members=group.members,
                sequence=seq,
                op=ops[majority[0]],
                missing=odd,
                entered=tuple(rank for rank in majority if rank not in odd),
            ),
        ),
    )


def path(context: Context, key: int, seq: int, op: str, ranks: tuple[int, ...], here: list[Head]) -> Finding:
    """All members stand at one operation, which they entered alike: the path between them, as far as dumps tell."""
    table = context.table
    group = table.group(key)
    hosts = context.job.hosts(ranks)
    timed = all(is_timed(table, rank) for rank in ranks)
    accusation = accuse(
        Subkind.ALL_ENTERED_NONE_LEFT,
        Confidence.LIKELY if timed else Confidence.POSSIBLE,
        victims=ranks,
        hosts=hosts if len(hosts) > 1 else (),
        scope=Scope.GROUP,
        at=max((head.created for head in here if head.created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=seq, op=op, missing=(), entered=ranks
        ),
    )
    references = tuple(
        table.reference(head.rank, head.row) for head in here[:8] if head.row >= 0 and head.rank in table.rows
    )
    statement = f"{group.label} #{seq} {op}: all {len(ranks)} members entered alike and none left"
    if asked_for(context, ranks):
        return Finding(
            NAME,
            Plane.FLIGHT,
            f"{statement}, as in any moment of a moving job: its backend writes no dump by itself",
            references,
            would_decide=SECOND_SET,
        )
    wanted = "link and NIC error counters, NCCL's log, RAS from every node: who moves no bytes"
    if not references:
        # Watchdog lines alone tell neither a stalled GPU nor another call from a lost path.
        return Finding(NAME, Plane.FRAMEWORK_LOG, statement, would_decide=f"the dumps of all ranks; {wanted}")
    if not timed:
        statement += UNTIMED
        wanted = f"{TIMING}; {wanted}"
    return Finding(NAME, Plane.FLIGHT, statement, references, accusation, would_decide=wanted)
