"""NCCL and framework logs: an init that does not come to its end, and why.

Blind to ranks whose log was not collected (absent and unlogged look the same: a supervisor or a dump tells), and across
holes that rotation left.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, ranks_text
from rankmuster.diagnose.inits import CommInit, communicators
from rankmuster.model.fault import Confidence, Phase, Scope, Subkind
from rankmuster.model.frameworklog import StoreError, StoreErrorKind
from rankmuster.model.kernel import ServiceEvent
from rankmuster.model.nccllog import NcclInterface, NcclLogFile, NcclProblem, NcclProblemKind
from rankmuster.model.plane import Plane

NAME = "init"

VIRTUAL = re.compile(r"^(veth|docker|br-|virbr|cni|cali|flannel|vnet|tap|tun|lxc|lo$|podman|kube|vxlan|ovs|dummy)")
"""Interface names that containers and bridges get (systemd, docker, CNI plugins); other hosts cannot reach them."""

CAUSES = {
    NcclProblemKind.VERSION_MISMATCH: Subkind.VERSION_MISMATCH,
    NcclProblemKind.NO_INTERFACE: Subkind.NO_INTERFACE,
    NcclProblemKind.SHM: Subkind.RESOURCE_LIMIT,
    NcclProblemKind.GDR_MEMORY: Subkind.RESOURCE_LIMIT,
    NcclProblemKind.NVLS: Subkind.FABRIC_NOT_READY,
    NcclProblemKind.MNNVL: Subkind.FABRIC_NOT_READY,
    NcclProblemKind.CONNECT_FAILED: Subkind.BOOTSTRAP_UNREACHABLE,
}
"""What a warning during init says of its cause."""

NOT_READY = re.compile(r"system not yet initialized|CUDA failure 802|Cuda failure 802|'system not yet initialized'")


def detect(context: Context) -> list[Finding]:
    """At most one accusation: an explicit cause, an absent rank, a wrong interface, or a rendezvous that timed out."""
    comms = communicators(context)
    pending = [comm for comm in comms if comm.pending and comm.unbroken and _old_enough(context, comm)]
    explicit = _explicit(context, pending, comms)
    if explicit:
        return explicit
    for comm in pending:
        absent = _absent(context, comm)
        if absent is not None:
            return [absent]
    for comm in pending:
        wrong = _wrong_interface(context, comm)
        if wrong is not None:
            return [wrong]
    rendezvous = _rendezvous(context, comms)
    if rendezvous:
        return rendezvous
    return [_unexplained(comm) for comm in pending[:1]]


def _old_enough(context: Context, comm: CommInit) -> bool:
    """An init that had time: measured to the last look, or unknown (then it was collected for a reason)."""
    end = context.window[1]
    return comm.last is None or end is None or end - comm.last >= context.limits.init_seconds


def _name(comm: CommInit) -> str:
    return f"communicator {comm.comm_id} of {comm.nranks} ranks"


def _origin(problem: NcclProblem) -> str:
    return f"{problem.origin.source}#L{problem.origin.line}"


def _explicit(context: Context, pending: list[CommInit], comms: list[CommInit]) -> list[Finding]:
    """Warnings that name the cause, where init has not completed (or no init line says anything)."""
    if comms and not pending:
        return []
    problems = [
        problem for problem in context.evidence.of(NcclProblem) if problem.primary and _cause(problem) is not None
    ]
    if not problems:
        return []
    by_cause: dict[Subkind, list[NcclProblem]] = defaultdict(list)
    for problem in problems:
        cause = _cause(problem)
        if cause is not None:
            by_cause[cause].append(problem)
    order = list(dict.fromkeys(CAUSES.values()))
    subkind = min(
        by_cause, key=lambda cause: (order.index(cause), context.time(by_cause[cause][0].origin.stamp) or 0.0)
    )
    lines = by_cause[subkind]
    hosts = tuple(sorted({host for line in lines if (host := context.roster.host(line.origin.host)) is not None}))
    statement = f"{_title(subkind)}: {lines[0].text[:200]}" + (f" ({len(lines)} such lines)" if len(lines) > 1 else "")
    evidence = tuple(_origin(line) for line in lines[:6])
    if subkind is Subkind.VERSION_MISMATCH:
        versions = {key: value for line in lines for key, value in line.detail}
        if versions:
            statement = "NCCL versions differ: " + ", ".join(
                f"{key} has {value}" for key, value in sorted(versions.items())
            )
    if subkind is Subkind.FABRIC_NOT_READY:
        services = [
            event
            for event in context.evidence.of(ServiceEvent)
            if "fabric" in event.service.lower() or "imex" in event.service.lower()
        ]
        statement = f"NVLS (NVLink SHARP) or the NVLink fabric could not be set up: {lines[0].text[:160]}"
        if services:
            statement += f"; the Fabric Manager was {services[-1].kind.value} before it ({services[-1].text[:100]})"
            evidence += tuple(f"{event.origin.source}#L{event.origin.line}" for event in services[:4])
        else:
            statement += "; look at the Fabric Manager of this node"
    return [
        Finding(
            NAME,
            Plane.NCCL_LOG,
            statement,
            evidence,
            accuse(
                subkind,
                Confidence.CONFIRMED
                if subkind in (Subkind.VERSION_MISMATCH, Subkind.NO_INTERFACE)
                else Confidence.LIKELY,
                hosts=hosts,
                victims=context.world,
                phase=Phase.INIT,
                scope=Scope.NODE if subkind is Subkind.FABRIC_NOT_READY else Scope.GROUP,
                at=context.time(lines[0].origin.stamp),
                decisive=subkind is Subkind.VERSION_MISMATCH,
            ),
        )
    ]


def _cause(problem: NcclProblem) -> Subkind | None:
    if NOT_READY.search(problem.text):
        return Subkind.FABRIC_NOT_READY
    if ("thread", "ras") in problem.detail:
        return None
    return CAUSES.get(problem.kind)


def _title(subkind: Subkind) -> str:
    return {
        Subkind.NO_INTERFACE: "NCCL found no network interface to use",
        Subkind.RESOURCE_LIMIT: "A resource limit stopped NCCL",
        Subkind.BOOTSTRAP_UNREACHABLE: "NCCL's bootstrap could not reach a peer",
    }.get(subkind, "NCCL could not initialise")


def _absent(context: Context, comm: CommInit) -> Finding | None:
    if not comm.absent or comm.completed:
        return None
    known = tuple(sorted(comm.globals[rank] for rank in comm.absent if rank in comm.globals))
    everybody_known = len(known) == len(comm.absent)
    waiting = tuple(sorted(comm.globals.get(rank, rank) for rank in comm.started))
    majority = len(comm.absent) < len(comm.started) or (len(comm.absent) == len(comm.started) == 1)
    logged = _logs_cover(context, known)
    named = everybody_known and majority
    statement = (
        f"{_name(comm).capitalize()}: {ranks_text(waiting)} started its init and none completed it; "
        f"{ranks_text(known) if everybody_known else f'{len(comm.absent)} ranks'} never started it"
    )
    if not logged:
        statement += " (no NCCL log of the absent was found)"
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        comm.references,
        accuse(
            Subkind.RANK_ABSENT,
            Confidence.LIKELY,
            culprits=known if named else (),
            suspects=() if named else known,
            victims=waiting if named else (),
            why=dict.fromkeys(known, f"never started the init of {_name(comm)}, which all others wait in"),
            phase=Phase.INIT,
            scope=Scope.RANK,
            at=comm.last,
        ),
    )


def _logs_cover(context: Context, ranks: tuple[int, ...]) -> bool:
    pids = {context.job.rank(rank).pid for rank in ranks} - {None}
    writers = {pid for log in context.evidence.of(NcclLogFile) for _, pid in log.writers}
    return bool(pids & writers)


def _bootstrap(context: Context) -> dict[tuple[str | None, int | None], tuple[str, str | None]]:
    return {
        (line.origin.host, line.origin.pid): line.interfaces[0]
        for line in context.evidence.of(NcclInterface)
        if line.role == "bootstrap" and line.interfaces
    }


def _wrong_interface(context: Context, comm: CommInit) -> Finding | None:
    """All started, none completed, several hosts, and the bootstrap went over an interface that peers cannot reach."""
    if comm.absent or comm.completed:
        return None
    chosen = _bootstrap(context)
    by_host: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    for (host, _), interface in chosen.items():
        by_host[host or "?"].add(interface)
    others = sorted(
        {
            f"{name}:{address}"
            for line in context.evidence.of(NcclInterface)
            if line.role in ("socket", "ib")
            for name, address in line.interfaces
            if address is not None and (name, address) not in set(chosen.values())
        }
    )
    virtual = sorted({name for found in by_host.values() for name, _ in found if VIRTUAL.match(name)})
    differing = len({_network(address) for found in by_host.values() for _, address in found}) > 1
    retries = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind in (NcclProblemKind.CONNECT_RETRY, NcclProblemKind.CONNECT_FAILED)
        and ("thread", "ras") not in problem.detail
    ]
    if len(by_host) < 2 or not (virtual or differing or retries):
        return None
    names = virtual or sorted({name for found in by_host.values() for name, _ in found})
    reason = "a container's or bridge's own" if virtual else "not on one network with its peers'"
    statement = (
        f"{_name(comm).capitalize()}: every rank started and none completed. NCCL's bootstrap chose "
        f"{', '.join(names)}, {reason}"
        + (f"; {', '.join(others[:6])} were there too" if others else "")
        + ". Set NCCL_SOCKET_IFNAME to an interface that all hosts share"
    )
    evidence = tuple(
        f"{line.origin.source}#L{line.origin.line}"
        for line in context.evidence.of(NcclInterface)
        if line.role == "bootstrap"
    )[:4]
    hosts = tuple(sorted({host for name in by_host if (host := context.roster.host(name)) is not None}))
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        evidence + comm.references[:4],
        accuse(
            Subkind.BOOTSTRAP_UNREACHABLE,
            Confidence.LIKELY,
            victims=context.world,
            hosts=hosts,
            links=tuple(names),
            phase=Phase.INIT,
            scope=Scope.GROUP,
            at=comm.last,
        ),
    )


def _network(address: str | None) -> str | None:
    try:
        return str(ipaddress.ip_network(f"{address}/16", strict=False)) if address else None
    except ValueError:
        return None


def _rendezvous(context: Context, comms: list[CommInit]) -> list[Finding]:
    """torch's own rendezvous, before NCCL: store clients that did not all join."""
    if any(comm.completed for comm in comms) or context.table.rolls:
        return []
    errors = [
        error
        for error in context.evidence.of(StoreError)
        if error.kind
        in (StoreErrorKind.RENDEZVOUS_TIMEOUT, StoreErrorKind.MISSING_MEMBERS, StoreErrorKind.CONNECT_FAILED)
    ]
    if not errors:
        return []
    counted = [error for error in errors if error.joined is not None]
    best = counted[0] if counted else errors[0]
    statement = f"Rendezvous did not complete: {best.text[:200]}"
    silent: tuple[int, ...] = ()
    if best.joined is not None and best.expected is not None:
        spoke = {error.origin.rank for error in errors} - {None}
        silent = tuple(rank for rank in context.world if rank not in spoke)
        statement += f" ({best.joined} of {best.expected} joined)"
        if len(silent) != best.expected - best.joined:
            silent = ()
    return [
        Finding(
            NAME,
            Plane.FRAMEWORK_LOG,
            statement,
            tuple(f"{error.origin.source}#L{error.origin.line}" for error in errors[:6]),
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


def _unexplained(comm: CommInit) -> Finding:
    statement = (
        f"{_name(comm).capitalize()}: {len(comm.started)} ranks started its init, {len(comm.completed)} completed it"
    )
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        comm.references,
        accuse(
            Subkind.BOOTSTRAP_UNREACHABLE,
            Confidence.POSSIBLE,
            victims=tuple(sorted(comm.globals.get(rank, rank) for rank in comm.started)),
            phase=Phase.INIT,
            scope=Scope.GROUP,
            at=comm.last,
        ),
        would_decide="NCCL_DEBUG=INFO logs of all ranks, whether each bootstrap address can be reached from each host",
    )
