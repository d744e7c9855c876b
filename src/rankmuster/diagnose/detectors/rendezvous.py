"""torch's rendezvous and its stores, before NCCL: who did not join, which address or port is in the way.

Blind to engines that exchange NCCL's id by themselves, and to why a process never started.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.diagnose.inits import CommInit
from rankmuster.model.fault import Confidence, Phase, Scope, Subkind
from rankmuster.model.frameworklog import StoreError, StoreErrorKind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "init"

UNIQUE_ID = re.compile(r"\[(\d{1,9})\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(\d{1,9})\]")
"""torch waits on its store for the communicator's id, which the group's first rank makes (ProcessGroupNCCL.cpp)."""

RENDEZVOUS_ADVICE = {
    StoreErrorKind.RENDEZVOUS_TIMEOUT: (
        "Count the processes that were started, and see that all have the same rendezvous id and endpoint "
        "(MASTER_ADDR, MASTER_PORT, --rdzv-endpoint)"
    ),
    StoreErrorKind.MISSING_MEMBERS: (
        "The missing ones never started, failed before they came here, or have another address: look at their logs, "
        "WORLD_SIZE and RANK, MASTER_ADDR and MASTER_PORT"
    ),
    StoreErrorKind.CONNECT_FAILED: (
        "Nothing answers there: see that rank 0 runs on that host and listens, that MASTER_ADDR and MASTER_PORT are "
        "the same everywhere, and that no firewall stands between"
    ),
}
"""What to look at, by what the store said (torch's and the engines' troubleshooting pages)."""


def detect(context: Context, comms: list[CommInit]) -> list[Finding]:
    """torch's own rendezvous, before NCCL: store clients that did not all join."""
    without = [error for error in context.evidence.of(StoreError) if error.kind is StoreErrorKind.GLOO_INTERFACE]
    if without:  # of whichever group: one of gloo's is often made beside NCCL's, that has begun well
        return [_no_interface(context, without)]
    if any(comm.completed for comm in comms) or context.table.rolls:
        return []
    errors = [
        error
        for error in context.evidence.of(StoreError)
        if error.kind
        in (StoreErrorKind.RENDEZVOUS_TIMEOUT, StoreErrorKind.MISSING_MEMBERS, StoreErrorKind.CONNECT_FAILED)
    ]
    taken = [error for error in context.evidence.of(StoreError) if error.kind is StoreErrorKind.PORT_IN_USE]
    if taken:
        return [_port_in_use(context, taken)]
    unmade = [
        error
        for error in context.evidence.of(StoreError)
        if error.kind is StoreErrorKind.STORE_TIMEOUT and UNIQUE_ID.search(error.text)
    ]
    mesh = [error for error in context.evidence.of(StoreError) if error.kind is StoreErrorKind.GLOO_MESH]
    if mesh:
        return [_gloo(context, mesh)]
    if unmade and not errors:
        return [_no_unique_id(context, unmade)]
    if not errors:
        return []
    counted = [error for error in errors if error.joined is not None]
    best = counted[0] if counted else errors[0]
    statement = f"Rendezvous did not complete: {quoted(best.text)}"
    silent: tuple[int, ...] = ()
    if best.joined is not None and best.expected is not None:
        spoke = {error.origin.rank for error in errors} - {None}
        silent = tuple(rank for rank in context.world if rank not in spoke)
        statement += f" ({best.joined} of {best.expected} joined)"
        if len(silent) != best.expected - best.joined:
            silent = ()
    statement += ". " + RENDEZVOUS_ADVICE[best.kind]
    return [
        Finding(
            NAME,
            Plane.FRAMEWORK_LOG,
            statement,
            tuple(error.origin.reference for error in errors[:6]),
            accuse(
                Subkind.RENDEZVOUS_TIMEOUT,
                Confidence.LIKELY,
                suspects=silent,
                why=dict.fromkeys(silent, "is the only one that did not report waiting for the others"),
                phase=Phase.INIT,
                scope=Scope.GROUP,
                at=context.time(best.origin.stamp),
            ),
        )
    ]


def _port_in_use(context: Context, taken: list[StoreError]) -> Finding:
    first = next((error for error in taken if error.address is not None), taken[0])
    port = (first.address or "").rpartition(":")[2] or "of the store"
    statement = (
        f"Rendezvous could not begin: port {port} is already in use on the store's host ({quoted(first.text, 160)}). "
        "Another job, or one that has not ended, listens there: end it, or take another port (MASTER_PORT, "
        "--master-port, --rdzv-endpoint)"
    )
    return Finding(
        NAME,
        Plane.FRAMEWORK_LOG,
        statement,
        tuple(error.origin.reference for error in taken[:4]),
        accuse(
            Subkind.MISCONFIGURED,
            Confidence.LIKELY,
            phase=Phase.INIT,
            scope=Scope.GROUP,
            at=context.time(first.origin.stamp),
        ),
    )


def _gloo(context: Context, mesh: list[StoreError]) -> Finding:
    first = next((error for error in mesh if error.address is not None), mesh[0])
    at = f" ({first.address})" if first.address else ""
    statement = (
        f"gloo's ranks could not connect to each other{at}: {quoted(first.text, 240)}. Each host offers the address "
        "that its own name resolves to, often 127.0.1.1: set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME, VLLM_HOST_IP) "
        "to the interface that all hosts share, or mend /etc/hosts"
    )
    accusation = accuse(
        Subkind.BOOTSTRAP_UNREACHABLE,
        Confidence.LIKELY,
        victims=context.world,
        phase=Phase.INIT,
        scope=Scope.GROUP,
        at=context.time(first.origin.stamp),
    )
    evidence = tuple(error.origin.reference for error in mesh[:4])
    return Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, accusation)


def _no_interface(context: Context, without: list[StoreError]) -> Finding:
    """gloo raises at once in the ranks that have it, while the others wait for them in the store."""
    first = without[0]
    ranks = tuple(sorted({error.origin.rank for error in without if error.origin.rank is not None}))
    few = ranks if 0 < len(ranks) * 2 < len(context.world) and all(e.origin.rank is not None for e in without) else ()
    who = ranks_text(ranks).capitalize() if ranks else "A rank that the log does not name"
    statement = (
        f"{who}: the network interface that gloo is told to use is not there, or has no address: "
        f"{quoted(first.text, 240)}. See which there are (`ip addr`), and set GLOO_SOCKET_IFNAME to the one that all "
        "hosts share, or unset it"
    )
    accusation = accuse(
        Subkind.NO_INTERFACE,
        Confidence.CONFIRMED,
        culprits=few,
        victims=tuple(rank for rank in context.world if rank not in ranks),
        why=dict.fromkeys(few, "has no interface by the name that its own settings give, where its peers have one"),
        phase=Phase.INIT,
        scope=Scope.RANK if few else Scope.GROUP,
        at=context.time(first.origin.stamp),
    )
    evidence = tuple(error.origin.reference for error in without[:4])
    return Finding(NAME, Plane.FRAMEWORK_LOG, statement, evidence, accusation)


def _no_unique_id(context: Context, unmade: list[StoreError]) -> Finding:
    found = [match.groups() for error in unmade if (match := UNIQUE_ID.search(error.text)) is not None]
    maker = int(found[0][1])
    waiting = tuple(sorted({int(rank) for rank, _ in found}))
    # The numbers are the group's own; they are global ones where the group is the default one.
    default = "default_pg" in unmade[0].text or not context.world
    statement = (
        f"{ranks_text(waiting).capitalize()} waited for the ncclUniqueId that rank {maker} makes, and it never came: "
        f"{quoted(unmade[0].text, 240)}. Rank {maker} did not come to this communicator: look at its log and stack "
        "first, then at the store's address"
    )
    return Finding(
        NAME,
        Plane.FRAMEWORK_LOG,
        statement,
        tuple(error.origin.reference for error in unmade[:6]),
        accuse(
            Subkind.RENDEZVOUS_TIMEOUT,
            Confidence.LIKELY,
            suspects=(maker,) if default else (),
            victims=waiting if default else (),
            why={maker: "makes the id that all others waited for"} if default else {},
            phase=Phase.INIT,
            scope=Scope.GROUP,
            at=context.time(unmade[0].origin.stamp),
        ),
    )
