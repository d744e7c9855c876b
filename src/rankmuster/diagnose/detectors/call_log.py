"""NCCL log: the calls of one communicator, compared over ranks.

Numbers count only where they move (since 2.27 they are 0 on one node); then calls are aligned from an unbroken start.
Blind where the log has a hole, and to calls inside replayed graphs.
"""

from __future__ import annotations

from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.mismatch import split
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.diagnose.inits import broken_writers
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import InitPhase, NcclCall, NcclInit, NcclProblem, NcclProblemKind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.verdict import FirstDivergence

NAME = "call-log"

COMPARED = frozenset({"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AlltoAll"})
"""Operations in which every member passes the same count, type and root."""

Calls = dict[int, list[NcclCall]]


def detect(context: Context) -> list[Finding]:
    """The first call of each communicator that its members did not make alike."""
    found = []
    for (comm_id, _), calls in _per_communicator(context).items():
        if len(calls) > 1:
            finding = _compare(context, comm_id, calls)
            if finding is not None:
                found.append(finding)
    warned = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind is NcclProblemKind.COLLECTIVE_MISMATCH and problem.primary
    ]
    if warned and not any(finding.accusation for finding in found):
        statement = (
            f"NCCL itself warns of calls that do not fit: {quoted(warned[0].text, 300)}. Compare the calls of all "
            "ranks there (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=COLL), and NCCL_PROTO, NCCL_ALGO and NCCL versions of all"
        )
        evidence = tuple(line.origin.reference for line in warned[:4])
        accusation = accuse(
            Subkind.SIZE_MISMATCH if _of_sizes(warned[0].text) else Subkind.OP_MISMATCH,
            Confidence.LIKELY,
            scope=Scope.GROUP,
            at=context.time(warned[0].origin.stamp),
        )
        found.append(Finding(NAME, Plane.NCCL_LOG, statement, evidence, accusation))
    return found


def _of_sizes(text: str) -> bool:
    return "truncated" in text or ("local size" in text and "remote size" in text)


def _per_communicator(context: Context) -> dict[tuple[str, int], Calls]:
    """Calls per (commId, size) and communicator-local rank, in order."""
    owner: dict[tuple[str | None, int | None, str], NcclInit] = {}
    for line in context.evidence.of(NcclInit):
        if line.phase in (InitPhase.START, InitPhase.COMPLETE) and line.comm_id is not None:
            owner[(line.origin.host, line.origin.pid, line.comm)] = line
    table: dict[tuple[str, int], Calls] = defaultdict(lambda: defaultdict(list))
    for call in context.evidence.of(NcclCall):
        init = owner.get((call.origin.host, call.origin.pid, call.comm))
        if init is not None and call.op in COMPARED and init.comm_id is not None:
            table[(init.comm_id, init.nranks)][init.rank].append(call)
    return table


def _shape(call: NcclCall) -> tuple[str, int, int, int]:
    return (call.op, call.count, call.datatype, call.root)


def _compare(context: Context, comm_id: str, calls: Calls) -> Finding | None:
    numbered = any(call.op_count for made in calls.values() for call in made)
    broken = broken_writers(context)
    usable: dict[int, dict[int, NcclCall]] = {}
    for rank, made in calls.items():
        if numbered:
            usable[rank] = {call.op_count: call for call in reversed(made)}
        elif (made[0].origin.host, made[0].origin.pid) not in broken:
            usable[rank] = dict(enumerate(made))
    if len(usable) < 2:
        return None
    first = max(min(numbers) for numbers in usable.values() if numbers)
    last = min(max(numbers) for numbers in usable.values() if numbers)
    agreed = 0
    for number in range(first, min(last, first + 1_000_000) + 1):
        here = {rank: made[number] for rank, made in usable.items() if number in made}
        if len(here) < 2:
            continue
        if len({_shape(call) for call in here.values()}) == 1:
            agreed += 1
            continue
        if agreed < context.limits.prefix_calls:
            return None
        return _finding(context, comm_id, number, here, numbered)
    return None


def _finding(context: Context, comm_id: str, number: int, here: dict[int, NcclCall], numbered: bool) -> Finding:
    ops = {call.op for call in here.values()}
    if len(ops) > 1:
        subkind, key = Subkind.OP_MISMATCH, {rank: call.op for rank, call in here.items()}
    elif len({call.datatype for call in here.values()}) > 1:
        subkind, key = Subkind.DTYPE_MISMATCH, {rank: str(call.datatype) for rank, call in here.items()}
    else:
        subkind, key = Subkind.SIZE_MISMATCH, {rank: f"{call.count}/{call.root}" for rank, call in here.items()}
    majority, odd = split(dict(key))
    to_global = {rank: _global(context, call, rank) for rank, call in here.items()}
    camps = "; ".join(
        f"{ranks_text([to_global[r] for r, c in here.items() if _shape(c) == shape])} called {shape[0]} of {shape[1]}"
        for shape in dict.fromkeys(_shape(call) for call in here.values())
    )
    label = f"opCount 0x{number:x}" if numbered else f"call {number + 1}"
    culprits = tuple(sorted(to_global[rank] for rank in odd))
    everybody = tuple(sorted(to_global.values()))
    reference = here[majority[0]]
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        f"Communicator {comm_id}, {label}: {camps}",
        tuple(call.origin.reference for call in list(here.values())[:8]),
        accuse(
            subkind,
            Confidence.CONFIRMED if odd and numbered else Confidence.LIKELY,
            culprits=culprits,
            suspects=() if odd else everybody,
            victims=tuple(rank for rank in everybody if rank not in culprits) if odd else (),
            why=dict.fromkeys(culprits, f"called {here[odd[0]].op} at {label} where the others called {reference.op}")
            if odd
            else {to_global[rank]: f"called {c.op} of {c.count} at {label}, unlike others" for rank, c in here.items()},
            scope=Scope.RANK if odd else Scope.GROUP,
            at=context.time(reference.origin.stamp),
            decisive=bool(odd),
            divergence=FirstDivergence(
                group=f"communicator {comm_id}",
                members=everybody,
                sequence=number,
                op=reference.op,
                missing=culprits,
                entered=tuple(rank for rank in everybody if rank not in culprits),
            ),
        ),
    )


def _global(context: Context, call: NcclCall, rank: int) -> int:
    found = context.roster.of_process(call.origin.host, call.origin.pid)
    return found if found is not None else rank
