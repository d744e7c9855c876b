"""NCCL and framework logs: an init that does not come to its end, and why.

Blind to ranks whose log was not collected (absent and unlogged look the same: a supervisor or a dump tells), and across
holes that rotation left.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import init_advice, init_causes, not_ready, rendezvous
from rankmuster.diagnose.finding import Accusation, Finding, accuse, quoted
from rankmuster.diagnose.inits import CommInit, communicators, stuck
from rankmuster.model.fault import Confidence, FaultClass, Phase, Scope, Subkind
from rankmuster.model.flight import FlightDump
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.nccllog import NcclInterface, NcclLogFile, NcclProblem, NcclProblemKind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "init"

LOOPBACK = "lo"

VIRTUAL = re.compile(r"^(veth|docker|br-|virbr|cni|cali|flannel|vnet|tap|tun|lxc|lo$|podman|kube|vxlan|ovs|dummy)")
"""Interface names that containers and bridges get (systemd, docker, CNI plugins); other hosts cannot reach them."""


FILE_UNREADABLE = re.compile(r"XML (?:Parse error|import)|Could not open XML")
"""NCCL's words for a topology or graph file that it cannot read (graph/xml.cc)."""

OF_CONNECTIONS = frozenset(
    {
        NcclProblemKind.CONNECT_FAILED,
        NcclProblemKind.CONNECT_RETRY,
        NcclProblemKind.CLOSED_BY_PEER,
        NcclProblemKind.SOCKET_ERROR,
        NcclProblemKind.BOOTSTRAP,
    }
)
"""Warnings that fit a bootstrap that cannot be reached; any other one names a cause of its own."""


def detect(context: Context) -> list[Finding]:
    """At most one accusation: an explicit cause, an absent rank, a wrong interface, or a rendezvous that timed out."""
    comms = communicators(context)
    pending = stuck(context, comms)
    explicit = init_causes.explicit(context, pending, comms)
    if not explicit and not init_causes.began(context) and not any(comm.completed for comm in comms):
        explicit = not_ready.detect(context)
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
    met = rendezvous.detect(context, comms)
    if met:
        return met
    return [_unexplained(context, comm) for comm in pending[:1]]


def _name(comm: CommInit) -> str:
    return f"communicator {comm.comm_id} of {comm.nranks} ranks"


def _absent(context: Context, comm: CommInit) -> Finding | None:
    if not comm.absent or comm.completed:
        return None
    known = tuple(sorted(comm.globals[rank] for rank in comm.absent if rank in comm.globals))
    everybody_known = len(known) == len(comm.absent)
    waiting = tuple(sorted(comm.globals.get(rank, rank) for rank in comm.started))
    majority = len(comm.absent) < len(comm.started) or (len(comm.absent) == len(comm.started) == 1)
    logged = _logs_cover(context, known)
    # Absent and not collected look the same, unless something else of the absent was collected.
    collected = logged or all(_collected(context, rank) for rank in known) or _one_log(context)
    named = everybody_known and majority and collected
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


def _collected(context: Context, rank: int) -> bool:
    """Whether the collector reached this rank: another log of its own, or its dump."""
    own_log = any(span.rank == rank for span in context.evidence.of(LogSpan))
    return own_log or any(dump.rank == rank for dump in context.evidence.of(FlightDump))


def _one_log(context: Context) -> bool:
    """Whether one shared log holds all ranks: then who is absent from it was not merely left uncollected."""
    logs = context.evidence.of(NcclLogFile)
    return len(logs) == 1 and len(logs[0].writers) > 1


def _logs_cover(context: Context, ranks: tuple[int, ...]) -> bool:
    logs = context.evidence.of(NcclLogFile)
    return any(context.roster.of_process(*writer) in ranks for log in logs for writer in log.writers)


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
    unroutable = sorted(
        {f"{name}:{address}" for found in by_host.values() for name, address in found if _link_local(address)}
    )
    shared = _shared_address(by_host)
    differing = len({_network(address) for found in by_host.values() for _, address in found}) > 1
    retries = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind in (NcclProblemKind.CONNECT_RETRY, NcclProblemKind.CONNECT_FAILED) and not problem.of_ras
    ]
    if len(by_host) < 2 or not (virtual or differing or retries or unroutable or shared):
        return None
    names = virtual or sorted({name for found in by_host.values() for name, _ in found})
    reason = "which is" if len(names) == 1 else "which are"
    if virtual == [LOOPBACK]:
        reason += " each host's own loopback and reaches no other host"
    elif virtual:
        reason += " internal to each host (containers, bridges or tunnels): other hosts do not reach it"
    elif unroutable:
        reason = f"whose address is link-local and reaches no other host ({', '.join(unroutable[:4])})"
    elif shared:
        reason = f"which has the same address on several hosts ({shared})"
    elif differing:
        reason += " not on one network: " + "; ".join(_addresses(by_host))
    else:
        reason = "and peers did not answer there"
    statement = (
        f"{_name(comm).capitalize()}: every rank started and none completed. NCCL's bootstrap chose "
        f"{', '.join(names)}, {reason}"
        + (f"; {', '.join(others[:6])} were there too" if others else "")
        + ". Set NCCL_SOCKET_IFNAME to an interface that all hosts share"
    )
    evidence = tuple(line.origin.reference for line in context.evidence.of(NcclInterface) if line.role == "bootstrap")[
        :4
    ]
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


def _addresses(by_host: Mapping[str, set[tuple[str, str | None]]]) -> list[str]:
    """`h1 bond0:10.0.0.1`, of up to four hosts."""
    return [
        f"{host} " + ", ".join(f"{name}:{address}" for name, address in sorted(found, key=str))
        for host, found in sorted(by_host.items())[:4]
    ]


def _link_local(address: str | None) -> bool:
    """fe80::/10 and 169.254.0.0/16; the USB port of a management controller has one of those."""
    try:
        return address is not None and ipaddress.ip_address(address.partition("%")[0]).is_link_local
    except ValueError:
        return False


def _shared_address(by_host: Mapping[str, set[tuple[str, str | None]]]) -> str | None:
    """An address that two hosts have: each then reaches itself."""
    owners: dict[str, set[str]] = defaultdict(set)
    for host, found in by_host.items():
        for _, address in found:
            if address is not None:
                owners[address].add(host)
    return next((address for address, hosts in sorted(owners.items()) if len(hosts) > 1), None)


def _network(address: str | None) -> str | None:
    try:
        return str(ipaddress.ip_network(f"{address}/16", strict=False)) if address else None
    except ValueError:
        return None


def _unexplained(context: Context, comm: CommInit) -> Finding:
    statement = (
        f"{_name(comm).capitalize()}: {len(comm.started)} ranks started its init, {len(comm.completed)} completed it"
    )
    warned = init_causes.warnings_of(context, comm)
    subkind: Subkind | None = Subkind.BOOTSTRAP_UNREACHABLE
    if warned:
        statement += f"; NCCL warned: {quoted(warned[0].text)}"
        settings = init_advice.settings_text(context)
        if settings:
            statement += f" (settings: {settings})"
        if any(FILE_UNREADABLE.search(problem.text) for problem in warned):
            subkind = Subkind.MISCONFIGURED
            statement = (
                "NCCL cannot read a file that a setting names (NCCL_TOPO_FILE, NCCL_GRAPH_FILE); mend it or take the "
                f"setting away. {statement}"
            )
        elif not any(problem.kind in OF_CONNECTIONS for problem in warned):
            subkind = None
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        comm.references,
        Accusation(
            FaultClass.INIT_STUCK,
            subkind,
            Confidence.LIKELY if subkind is Subkind.MISCONFIGURED else Confidence.POSSIBLE,
            victims=tuple(sorted(comm.globals.get(rank, rank) for rank in comm.started)),
            phase=Phase.INIT,
            scope=Scope.GROUP,
            at=comm.last,
        ),
        would_decide=None
        if subkind is Subkind.MISCONFIGURED
        else "NCCL_DEBUG=INFO logs of all ranks, whether each bootstrap address can be reached from each host",
    )
