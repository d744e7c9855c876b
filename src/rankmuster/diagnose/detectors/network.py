"""NCCL log and kernel: network errors, primary ones before what follows from them.

`status=5`, `Connection closed by remote peer` and `-> N` are after-effects: somebody else failed first. Blind to paths
that stall without an error (RoCE pause storms, a cut that no timer has noticed yet).
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.inits import communicators
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.kernel import KernelEvent, KernelEventKind
from rankmuster.model.nccllog import NcclInterface, NcclProblem, NcclProblemKind, NcclSetting, NcclVersionLine
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

AUTOMATIC_GID = (2, 21)
"""From this NCCL on the GID index is chosen by NCCL itself unless NCCL_IB_GID_INDEX is set; before, it is 0."""

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
        if problem.kind in NETWORK and ("thread", "ras") not in problem.detail
    ]
    primary = [problem for problem in problems if problem.primary]
    if (primary and any(comm.completed for comm in communicators(context))) or any(
        problem.kind is not NcclProblemKind.CONNECT_FAILED for problem in primary
    ):
        found.append(_error(context, primary))
    links = [event for event in context.evidence.of(KernelEvent) if event.kind in LINK_KINDS]
    if links:
        found.append(_links(context, links, bool(primary)))
    closed = [problem for problem in context.evidence.of(NcclProblem) if problem.kind is NcclProblemKind.CLOSED_BY_PEER]
    if closed and not primary:
        peers = sorted({problem.peer for problem in closed if problem.peer})
        statement = (
            f"NCCL saw connections closed by {', '.join(peers[:6]) or 'a peer'}: an after-effect, that peer ended or "
            "was taken down first"
        )
        found.append(
            Finding(
                NAME,
                Plane.NCCL_LOG,
                statement,
                tuple(_origin(problem) for problem in closed[:4]),
                would_decide="the log and exit code of the process behind that address",
            )
        )
    return found


def _origin(problem: NcclProblem) -> str:
    return f"{problem.origin.source}#L{problem.origin.line}"


def _error(context: Context, primary: list[NcclProblem]) -> Finding:
    timed = [(context.time(problem.origin.stamp), problem) for problem in primary]
    known = [(time, problem) for time, problem in timed if time is not None]
    first = min(known, key=lambda item: item[0] or 0.0)[1] if known else primary[0]
    detail = dict(first.detail)
    address = _address_reason(context, first)
    if address is not None:
        subkind, reason = Subkind.ADDRESS_OR_GID, address
    elif first.kind in (NcclProblemKind.IB_ASYNC, NcclProblemKind.IB_DEVICE_FAILED):
        subkind, reason = Subkind.LINK_ERROR, "the adapter itself reported it"
    else:
        subkind, reason = Subkind.PATH_LOST, _path_reason(first, detail)
    host = context.roster.host(first.origin.host)
    hosts = {host} if host else set()
    peer = (first.peer or "").split("<", 1)[0]
    if peer and context.roster.host(peer) in context.roster.hosts:
        hosts.add(context.roster.host(peer) or peer)
    if subkind is Subkind.ADDRESS_OR_GID or len(hosts) == 1:
        hosts |= {h for problem in primary if (h := context.roster.host(problem.origin.host)) is not None}
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        f"First network error on {first.origin.host or 'a host'}: {first.text[:200]}: {reason}",
        tuple(_origin(problem) for problem in primary[:6]),
        accuse(
            subkind,
            Confidence.LIKELY,
            victims=context.world,
            hosts=tuple(sorted(hosts)),
            links=tuple(sorted({value for key, value in detail.items() if key == "hca"})) or ((peer,) if peer else ()),
            scope=Scope.GROUP,
            at=context.time(first.origin.stamp),
        ),
        would_decide="link and error counters of the adapters on both ends; one bandwidth test between the two hosts",
    )


def _path_reason(problem: NcclProblem, detail: dict[str, str]) -> str:
    if problem.kind is NcclProblemKind.IB_COMPLETION and detail.get("status") == RETRY_EXCEEDED:
        return "transport retries are used up, so the peer or the path to it is gone"
    return "the connection failed while both ends were in use"


def _address_reason(context: Context, problem: NcclProblem) -> str | None:
    """RoCE with a GID that does not route: chosen by default, link-local, or refused when the queue pair was set up."""
    if problem.kind not in (NcclProblemKind.IB_COMPLETION, NcclProblemKind.IB_QP):
        return None
    ports = context.evidence.of(RdmaPort)
    roce = any("roce" in name.lower() for line in context.evidence.of(NcclInterface) for name, _ in line.interfaces)
    roce = roce or any((port.link_layer or "").lower() == "ethernet" for port in ports)
    if not roce:
        return None
    gids = [value.lower() for key, value in problem.detail if key in ("local_gid", "remote_gid")]
    if any(gid.startswith("fe80") or set(gid) <= set("0:") for gid in gids):
        return (
            f"RoCE with the link-local GID {gids[0]}, which does not route; set NCCL_IB_GID_INDEX to the RoCE v2 entry"
        )
    settings = {line.name: line.value for line in context.evidence.of(NcclSetting)}
    environment = dict(context.facts.environment) if context.facts else {}
    index = settings.get("NCCL_IB_GID_INDEX", environment.get("NCCL_IB_GID_INDEX"))
    if index is not None:
        kinds = [kind for port in ports for number, _, kind in port.gids if str(number) == index]
        if kinds and any(kind and "v2" not in kind.lower() for kind in kinds):
            return f"RoCE with NCCL_IB_GID_INDEX={index}, whose GID is {kinds[0]}, not RoCE v2"
        if problem.kind is NcclProblemKind.IB_QP:
            return f"the queue pair could not be set up with GID index {index} (NCCL_IB_GID_INDEX)"
        return None
    if _version(context) < AUTOMATIC_GID:
        return (
            "RoCE with the default GID index 0 (NCCL before 2.21 does not choose one): usually RoCE v1 or link-local, "
            "which does not route; set NCCL_IB_GID_INDEX to the RoCE v2 entry of the GID table"
        )
    if problem.kind is NcclProblemKind.IB_QP:
        return "the queue pair could not be set up with the GID that NCCL chose; set NCCL_IB_GID_INDEX"
    return None


def _version(context: Context) -> tuple[int, int]:
    for line in context.evidence.of(NcclVersionLine):
        parts = line.version.split(".")
        if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
            return int(parts[0]), int(parts[1])
    return (99, 0)


def _links(context: Context, links: list[KernelEvent], supported: bool) -> Finding:
    first = links[0]
    host = context.roster.host(first.origin.host)
    devices = tuple(dict.fromkeys(event.device for event in links if event.device))
    ups = [event for event in context.evidence.of(KernelEvent) if event.kind is KernelEventKind.LINK_UP]
    statement = f"The kernel saw {first.text[:160]}" + (
        f" and {len(links) - 1} more link events" if len(links) > 1 else ""
    )
    if ups:
        statement += f"; {len(ups)} link-up lines too: it flaps or came back"
    return Finding(
        NAME,
        Plane.KERNEL,
        statement,
        tuple(f"{event.origin.source}#L{event.origin.line}" for event in links[:6]),
        accuse(
            Subkind.LINK_ERROR,
            Confidence.LIKELY if supported or context.first_timeout is not None else Confidence.POSSIBLE,
            hosts=(host,) if host else (),
            links=devices,
            victims=context.world,
            scope=Scope.NODE,
            at=context.time(first.origin.stamp),
        ),
    )
