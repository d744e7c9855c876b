"""Operations that every member entered and at which some still stand: a stalled GPU, or the path itself."""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.mismatch import split
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.legal import is_symmetric
from rankmuster.diagnose.log_rolls import op_name
from rankmuster.diagnose.roll import Head
from rankmuster.diagnose.waits import WaitGraph
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import WatchdogTimeout
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FirstDivergence

NAME = "who-waits-for-whom"
"""One detector in three files; see `waiting`."""


def together(context: Context, graph: WaitGraph, heads: dict[int, Head]) -> list[Finding]:
    """Operations that every member has entered and at which some still stand, waiting for nobody."""
    table = context.table
    standing: dict[tuple[int, int], list[Head]] = defaultdict(list)
    for rank, head in heads.items():
        if head.seq is not None and not graph.edges.get(rank):
            standing[(head.group, head.seq)].append(head)
    found = []
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
        if gone and is_symmetric(op) and len(ranks) < len(gone) + (len(ranks) == len(gone) == 1):
            found.append(_stalled(context, key, seq, op, ranks, gone, here, finished=True))
            continue
        if gone:
            continue
        timed = [head for head in here if head.rank in table.rows and table.rows[head.rank].has_timing]
        waiting = tuple(sorted(head.rank for head in timed if not head.started))
        running = tuple(sorted(head.rank for head in timed if head.started))
        odd = len(waiting) < len(running) or (len(waiting) == len(running) == 1)
        if waiting and running and odd and len(timed) == len(group.members):
            found.append(_stalled(context, key, seq, op, waiting, running, here, finished=False))
        elif len(ranks) == len(group.members) and len(ranks) > 1:
            found.append(_log_mismatch(context, key, seq, here) or _path(context, key, seq, op, ranks, here))
    return found


def _stalled(
    context: Context,
    key: int,
    seq: int,
    op: str,
    stalled: tuple[int, ...],
    others: tuple[int, ...],
    here: list[Head],
    *,
    finished: bool,
) -> Finding:
    table = context.table
    group = table.group(key)
    if finished:
        what = f"{ranks_text(others)} finished it and {ranks_text(stalled)} did not, though it was enqueued there too"
    else:
        what = (
            f"{ranks_text(others)} started it and wait; on {ranks_text(stalled)} it is scheduled and not started: "
            "the GPU is busy with something before it"
        )
    accusation = accuse(
        Subkind.GPU_STALLED,
        Confidence.LIKELY,
        culprits=stalled,
        victims=others,
        why=dict.fromkeys(stalled, f"enqueued {group.label} #{seq} {op}, but its stream has not come to its end"),
        scope=Scope.RANK,
        at=max((head.created for head in here if head.created > 0), default=None),
        divergence=FirstDivergence(
            group=group.label, members=group.members, sequence=seq, op=op, missing=(), entered=group.members
        ),
    )
    references = tuple(
        table.reference(head.rank, head.row) for head in here if head.row >= 0 and head.rank in table.rows
    )
    return Finding(NAME, Plane.FLIGHT, f"{group.label} #{seq} {op}: {what}", references, accusation)


def _log_mismatch(context: Context, key: int, seq: int, here: list[Head]) -> Finding | None:
    """Ranks whose watchdogs timed out at one number in different operations or sizes."""
    group = context.table.group(key)
    said: dict[int, WatchdogTimeout] = {
        line.origin.rank: line
        for line in context.timeouts
        if line.origin.rank in {head.rank for head in here} and line.seq == seq and line.op is not None
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
        tuple(f"{line.origin.source}#L{line.origin.line}" for line in list(said.values())[:6]),
        accuse(
            subkind,
            Confidence.LIKELY,
            culprits=odd,
            suspects=() if odd else tuple(sorted(by)),
            victims=tuple(rank for rank in majority if odd),
            why=dict.fromkeys(odd, f"its watchdog timed out in another call than the others' as {group.label} #{seq}"),
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


def _path(context: Context, key: int, seq: int, op: str, ranks: tuple[int, ...], here: list[Head]) -> Finding:
    table = context.table
    group = table.group(key)
    hosts = tuple(sorted({host for rank in ranks if (host := context.job.rank(rank).host) is not None}))
    accusation = accuse(
        Subkind.ALL_ENTERED_NONE_LEFT,
        Confidence.LIKELY,
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
    wanted = "link and NIC error counters, NCCL's log, RAS from every node: who moves no bytes"
    if not references:
        # Watchdog lines alone tell neither a stalled GPU nor another call from a lost path.
        return Finding(NAME, Plane.FRAMEWORK_LOG, statement, would_decide=f"the dumps of all ranks; {wanted}")
    return Finding(
        NAME,
        Plane.FLIGHT,
        statement,
        references,
        accusation,
        would_decide=wanted,
    )
