"""NCCL log: RDMA that goes through host memory, because GPU Direct RDMA is off for the adapters.

NCCL's own choice by distance may be right (a path over the CPU's host bridge can be slower than host memory), so it is
a lead; an adapter that GPU Direct is off for altogether lacks a kernel module or DMA-BUF.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, counted, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import NcclProblem, NcclProblemKind, NcclTransport
from rankmuster.model.plane import Plane

NAME = "wrong-path"

DISTANCE = re.compile(r"distance (\d{1,3}) > (\d{1,3})")


def measured(context: Context) -> bool:
    """Whether the evidence shows how the job runs: then a lead of the log alone does not outrank it."""
    return bool(context.pages or context.tracks or context.dump_facts or context.polls)


def detect(context: Context, transports: tuple[NcclTransport, ...]) -> Finding | None:
    """RDMA channels none of which is GDRDMA, where NCCL said that it is off."""
    # Sockets never have it: NCCL says so for every Ethernet interface of a healthy job.
    said = [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.kind is NcclProblemKind.GDR_DISABLED and "NET/Socket" not in problem.text
    ]
    rdma = [line for line in transports if line.via.startswith("NET/") and not line.via.startswith("NET/Socket")]
    if not said or any("GDRDMA" in line.via for line in rdma):
        return None
    distance = next((m for p in said if (m := DISTANCE.search(p.text)) is not None), None)
    texts = list(dict.fromkeys(quoted(p.text, 120) for p in said))
    many = counted(len(rdma), "channel goes", "channels go")
    statement = f"{many} over RDMA through host memory; NCCL says: {'; '.join(texts[:4])}"
    if distance is not None:
        statement += (
            ". The adapter is farther from the GPU than NCCL allows by itself: NCCL_NET_GDR_LEVEL (PXB, PHB, SYS) "
            "allows it, which is worth measuring, not always faster"
        )
    else:
        statement += (
            ". Load nvidia_peermem (nv_peer_mem for NCCL before 2.23) on the host, or use a kernel and driver with "
            "DMA-BUF; ACS and the IOMMU may forbid it too"
        )
    evidence = tuple(p.origin.reference for p in said[:4])
    if measured(context):
        return Finding(NAME, Plane.NCCL_LOG, statement, evidence)
    hosts = tuple(sorted({host for p in said if (host := context.roster.host(p.origin.host)) is not None}))
    confidence = Confidence.LIKELY if distance is None and rdma else Confidence.POSSIBLE
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        evidence,
        accuse(Subkind.WRONG_PATH, confidence, hosts=hosts, scope=Scope.NODE, stop=False),
    )
