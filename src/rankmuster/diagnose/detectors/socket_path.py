"""NCCL log and RDMA ports: sockets where RDMA could be used, or shared memory.

Blind where neither a port, nor a warning, nor a setting says that there is something better.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import gdr, init_advice
from rankmuster.diagnose.finding import Finding, accuse, counted, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import NcclInit, NcclInterface, NcclProblem, NcclProblemKind, NcclTransport
from rankmuster.model.plane import Plane
from rankmuster.model.topology import RdmaPort

NAME = "wrong-path"

MISSING = re.compile(r"Failed to open libibverbs|provider")
"""Of what NCCL cannot use: a library or a plugin that may be missing on purpose, where there is no such adapter."""


def detect(
    context: Context, transports: tuple[NcclTransport, ...], settings: dict[str, tuple[str, str]]
) -> Finding | None:
    sockets = [line for line in transports if line.via.startswith("NET/Socket")]
    # Reports often end before the channels: the network that NCCL chose says the same, unless the job is on one host.
    chosen = [
        line
        for line in context.evidence.of(NcclInterface)
        if line.role == "network" and any(name == "Socket" for name, _ in line.interfaces)
    ]
    if not sockets and (transports or not chosen):
        return None
    ports = [port for port in context.evidence.of(RdmaPort) if "ACTIVE" in (port.state or "").upper()]
    unusable = [p for p in context.evidence.of(NcclProblem) if p.kind is NcclProblemKind.NET_UNAVAILABLE]
    blame = "NCCL_IB_DISABLE" in settings
    inside = [line for line in sockets if line.src_dev is not None and _same_host(context, line)]
    if inside and "NCCL_SHM_DISABLE" in settings:
        return _inside(context, inside, settings["NCCL_SHM_DISABLE"])
    if not ports and not unusable and not (blame and sockets):
        return None
    if sockets:
        many = counted(len(sockets), "channel between hosts goes", "channels between hosts go")
        statement = f"{many} through sockets (NET/Socket)"
    else:
        statement = "NCCL chose sockets for its network (NET/Socket)"
    evidence = tuple(line.origin.reference for line in (sockets or chosen)[:3])
    if ports:
        statement += f", though {ports[0].device} is up ({ports[0].link_layer or 'RDMA'})"
        evidence += (ports[0].source,)
    if blame:
        value, source = settings["NCCL_IB_DISABLE"]
        statement += f"; NCCL_IB_DISABLE={value} forbids RDMA"
        evidence += (source,)
    elif unusable:
        texts = dict.fromkeys(quoted(problem.text, 120) for problem in unusable)
        statement += f"; NCCL says: {'; '.join(list(texts)[:3])}"
        evidence += tuple(p.origin.reference for p in unusable[:3])
    if not blame:
        statement += (
            ". Give the container its adapters and libraries (--device=/dev/infiniband or privileged, memlock, "
            "libibverbs and the vendor's provider), and check NCCL_IB_HCA and the network plugin"
        )
        chosen_by = init_advice.settings_text(context, ("NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_PLUGIN"))
        if chosen_by:
            statement += f" (here {chosen_by})"
    lines: list[NcclTransport | NcclInterface] = [*sockets, *chosen]
    hosts = tuple(sorted({host for line in lines if (host := context.roster.host(line.origin.host)) is not None}))
    lead_only = not ports and not blame and all(MISSING.search(problem.text) for problem in unusable)
    if lead_only and gdr.measured(context):
        return Finding(NAME, Plane.NCCL_LOG, statement, evidence)
    confidence = Confidence.POSSIBLE if lead_only or not sockets else Confidence.LIKELY
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        evidence,
        accuse(Subkind.WRONG_PATH, confidence, hosts=hosts, scope=Scope.NODE, stop=False),
    )


def _same_host(context: Context, line: NcclTransport) -> bool:
    """Whether all ranks of the log are on one host: then a socket channel joins two GPUs of it."""
    hosts = {found.origin.host for found in context.evidence.of(NcclInit)}
    return len(hosts) == 1 and line.origin.host in hosts


def _inside(context: Context, lines: list[NcclTransport], said: tuple[str, str]) -> Finding:
    value, source = said
    statement = (
        f"{len(lines)} channels between GPUs of one host go through sockets (NET/Socket); NCCL_SHM_DISABLE={value} "
        "forbids shared memory: remove it"
    )
    host = context.roster.host(lines[0].origin.host)
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        (*(line.origin.reference for line in lines[:3]), source),
        accuse(Subkind.WRONG_PATH, Confidence.LIKELY, hosts=(host,) if host else (), scope=Scope.NODE, stop=False),
    )
