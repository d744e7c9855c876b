"""NCCL log and kernel: network errors, primary ones before what follows from them.

`status=5`, `Connection closed by remote peer` and `-> N` are after-effects: somebody else failed first. Blind to paths
that stall without an error (RoCE pause storms, a cut that no timer has noticed yet).
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import gid, init_causes
from rankmuster.diagnose.finding import Finding, accuse, counted, quoted
from rankmuster.diagnose.inits import communicators, stuck
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.kernel import KernelEvent, KernelEventKind
from rankmuster.model.nccllog import NcclInterface, NcclProblem, NcclProblemKind
from rankmuster.model.plane import Plane
from rankmuster.model.topology import RdmaPort

NAME = "network-errors"

NETWORK = frozenset(
    {
        NcclProblemKind.IB_COMPLETION,
        NcclProblemKind.IB_ASYNC,
        NcclProblemKind.IB_QP,
        NcclProblemKind.IB_DEVICE_FAILED,
        NcclProblemKind.SOCKET_ERROR,
        NcclProblemKind.CONNECT_FAILED,
    }
)

RETRY_EXCEEDED = "12"
"""ibv_wc_status IBV_WC_RETRY_EXC_ERR: the peer or the path to it is gone."""

MEMORY_STATUS = {
    "4": "local protection error: the adapter may not read this memory",
    "10": "remote access error: the peer's memory is not, or no longer, registered for it",
}
"""ibv_wc_status of requests that failed over memory, not over the path (rdma-core, verbs.h)."""

PLUGIN_FAILED = "completed with error"
"""What a network plugin (NET/OFI) says of a request that was under way; its other warnings are of its start."""

LONG_LINE = 300
"""Characters quoted of NCCL's network errors: addresses and GIDs of both ends stand at the end of a long line."""

DOWN = "is PORT_"
"""In `_ports` where a port is not active: libibverbs' names of port states begin so (IBV_PORT_DOWN, ...)."""

LINK_KINDS = (
    KernelEventKind.LINK_DOWN,
    KernelEventKind.BOND_DOWN,
    KernelEventKind.NIC_ERROR,
    KernelEventKind.TX_TIMEOUT,
)


def detect(context: Context) -> list[Finding]:
    """The earliest primary network error, as a path, a link or an address; then links that the kernel saw go down."""
    found: list[Finding] = []
    problems = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if (problem.kind in NETWORK or (problem.kind is NcclProblemKind.NET_PLUGIN and PLUGIN_FAILED in problem.text))
        and not problem.of_ras
    ]
    comms = communicators(context)
    # What kept an init from its end is told there; no path had carried anything yet.
    of_an_init = init_causes.claimed(context, stuck(context, comms), comms)
    primary = [problem for problem in problems if problem.primary and problem not in of_an_init]
    if (primary and any(comm.completed for comm in comms)) or any(
        problem.kind is not NcclProblemKind.CONNECT_FAILED for problem in primary
    ):
        found.append(_error(context, primary))
    links = [event for event in context.evidence.of(KernelEvent) if event.kind in LINK_KINDS]
    if links:
        found.append(_links(context, links, bool(primary)))
    closed = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind is NcclProblemKind.CLOSED_BY_PEER and not context.after_last_look(problem.origin.stamp)
    ]
    flushed = [problem for problem in problems if problem.kind is NcclProblemKind.IB_COMPLETION]
    if (closed or flushed) and not any(problem.primary for problem in problems):
        peers = sorted({problem.peer for problem in (*closed, *flushed) if problem.peer})
        what = "connections closed by" if closed else "requests flushed (status 5) towards"
        statement = (
            f"NCCL saw {what} {', '.join(peers[:6]) or 'a peer'}: an after-effect, that peer ended or was taken down "
            "first"
        )
        closed = closed or flushed
        found.append(
            Finding(
                NAME,
                Plane.NCCL_LOG,
                statement,
                tuple(problem.origin.reference for problem in closed[:4]),
                would_decide=f"the log and exit code of the process at {peers[0]}" if peers else None,
            )
        )
    return found


def _error(context: Context, primary: list[NcclProblem]) -> Finding:
    timed = [(context.time(problem.origin.stamp), problem) for problem in primary]
    known = [(time, problem) for time, problem in timed if time is not None]
    first = min(known, key=lambda item: item[0] or 0.0)[1] if known else primary[0]
    detail = dict(first.detail)
    address = gid.address_reason(context, first)
    if address is not None:
        subkind, reason = Subkind.ADDRESS_OR_GID, address
    elif first.kind in (NcclProblemKind.IB_ASYNC, NcclProblemKind.IB_DEVICE_FAILED):
        subkind, reason = Subkind.LINK_ERROR, "the adapter itself reported it: look at its port, cable and firmware"
    else:
        subkind, reason = Subkind.PATH_LOST, _path_reason(first, detail)
    host = context.roster.host(first.origin.host)
    hosts = {host} if host else set()
    peer = (first.peer or "").split("<", 1)[0]
    if peer and context.roster.host(peer) in context.roster.hosts:
        hosts.add(context.roster.host(peer) or peer)
    if subkind is Subkind.ADDRESS_OR_GID or len(hosts) == 1:
        hosts |= {h for problem in primary if (h := context.roster.host(problem.origin.host)) is not None}
    ports = _ports(context)
    if ports is not None and subkind is Subkind.PATH_LOST:
        subkind, reason = (Subkind.LINK_ERROR if DOWN in ports else subkind), f"{reason}; {ports}"
    adapters = _adapters(context, first)
    if adapters and not any(key == "hca" for key in detail):
        reason += f" (adapters in use there: {adapters})"
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        f"First network error on {first.origin.host or 'a host'}: {quoted(first.text, LONG_LINE)}: {reason}",
        tuple(problem.origin.reference for problem in primary[:6]),
        accuse(
            subkind,
            Confidence.LIKELY,
            victims=context.world,
            hosts=tuple(sorted(hosts)),
            links=tuple(sorted({value for key, value in detail.items() if key == "hca"})),
            scope=Scope.GROUP,
            at=context.time(first.origin.stamp),
        ),
        would_decide="link and error counters of the adapters on both ends; one bandwidth test between the two hosts",
    )


def _ports(context: Context) -> str | None:
    """What the captured port states explain: a port that is not active, or MTUs that differ between ends."""
    known = [port for port in context.evidence.of(RdmaPort) if port.state is not None]
    used = {name.partition(":")[0] for line in context.evidence.of(NcclInterface) for name, _ in line.interfaces}
    down = [port for port in known if "ACTIVE" not in (port.state or "") and (port.device in used or not used)]
    if down:
        said = ", ".join(f"{port.device} port {port.port} is {port.state}" for port in down[:4])
        return f"{said}: look at its cable and switch port, and at the subnet manager"
    mtus = {port.mtu: port for port in context.evidence.of(RdmaPort) if port.mtu is not None}
    if len(mtus) > 1:
        said = ", ".join(f"{port.host or port.source}: {port.device} {mtu}" for mtu, port in sorted(mtus.items())[:4])
        return f"the active MTU differs between ports ({said}): set one MTU on both ends and the switches between"
    return None


def _adapters(context: Context, problem: NcclProblem) -> str:
    """The RDMA ports that NCCL chose on this host, `mlx5_0:1/RoCE, ...`."""
    found = {
        name: None
        for line in context.evidence.of(NcclInterface)
        if line.role == "ib" and line.origin.host == problem.origin.host
        for name, _ in line.interfaces
    }
    return ", ".join(list(found)[:8])


def _path_reason(problem: NcclProblem, detail: dict[str, str]) -> str:
    status = detail.get("status") if problem.kind is NcclProblemKind.IB_COMPLETION else None
    if status == RETRY_EXCEEDED:
        return (
            "status 12, transport retries are used up, so the peer or the path to it is gone: test the two adapters "
            "with ib_write_bw, look at links, switches and congestion control; NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT "
            "only lengthen the wait"
        )
    if status in MEMORY_STATUS:
        return (
            f"status {status}, {MEMORY_STATUS[status]}. Look at GPU Direct RDMA: nvidia_peermem or DMA-BUF, IOMMU and "
            "ACS settings; NCCL_NET_GDR_LEVEL=LOC goes round it"
        )
    if problem.kind is NcclProblemKind.IB_QP:
        return "the queue pair could not be set up, so the two adapters do not reach each other"
    return "the connection failed while both ends were in use"


def _links(context: Context, links: list[KernelEvent], supported: bool) -> Finding:
    first = links[0]
    host = context.roster.host(first.origin.host)
    devices = tuple(dict.fromkeys(event.device for event in links if event.device))
    ups = [event for event in context.evidence.of(KernelEvent) if event.kind is KernelEventKind.LINK_UP]
    statement = f"The kernel saw {quoted(first.text)}" + (
        f" and {counted(len(links) - 1, 'more link event')}" if len(links) > 1 else ""
    )
    if ups:
        statement += f"; {counted(len(ups), 'link-up line')} too: it flaps or came back"
    references = tuple(event.origin.reference for event in links[:6])
    if not supported and context.roster.on_one_host:
        statement += ". The instance stands on one host and needs no link"
        return Finding(NAME, Plane.KERNEL, statement, references)
    standing = not ups or ups[-1].origin.line < links[-1].origin.line
    return Finding(
        NAME,
        Plane.KERNEL,
        statement,
        references,
        accuse(
            Subkind.LINK_ERROR,
            Confidence.LIKELY if supported or (bool(context.timeouts) and standing) else Confidence.POSSIBLE,
            hosts=(host,) if host else (),
            links=devices,
            victims=context.world,
            scope=Scope.NODE,
            at=context.time(first.origin.stamp),
        ),
    )
