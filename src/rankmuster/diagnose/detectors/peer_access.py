"""GPU peer-to-peer over PCIe that does not work: ACS or the IOMMU sends it to the root, and the first collective hangs.

Init completes, every rank enters the first collectives, none leaves, and nothing is logged. NCCL's troubleshooting
guide names ACS; NCCL_P2P_DISABLE=1 goes round it. Blind without transport lines, and to NVLink (which ACS does not
touch).
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import NcclTransport
from rankmuster.model.plane import Plane
from rankmuster.model.topology import PciAccessControl, TopologyMatrix

NAME = "peer-access"

FIRST_CALLS = 3
"""Sequence numbers that count as the first collectives: a barrier and an exchange of shapes come before the work."""

PCIE = frozenset({"PIX", "PXB", "PHB", "NODE", "SYS"})
"""Words of `nvidia-smi topo -m` for pairs without NVLink."""


def detect(context: Context) -> list[Finding]:
    """All ranks stand in one of the first collectives, over peer-to-peer that PCIe carries."""
    peers = [line for line in context.evidence.of(NcclTransport) if line.via.startswith("P2P")]
    words = _words(context)
    redirecting = [port for port in context.evidence.of(PciAccessControl) if port.redirects]
    if not peers or any(word.startswith("NV") for word in words) or not (words & PCIE or redirecting):
        return []
    places = {(line.group, line.seq, line.op) for line in context.timeouts}
    ranks = {line.origin.rank for line in context.timeouts}
    if len(places) != 1 or None in ranks or ranks != set(context.world) or len(ranks) < 2:
        return []
    first = context.timeouts[0]
    if first.seq is None or first.seq > FIRST_CALLS:
        return []
    statement = (
        f"All {len(ranks)} ranks timed out in their first collectives (#{first.seq} {first.op}), over peer-to-peer "
        f"({peers[0].via}) between GPUs that only PCIe joins ({', '.join(sorted(words & PCIE)) or 'no NVLink'})"
    )
    if redirecting:
        statement += f"; ACS is on at {', '.join(port.device or '?' for port in redirecting[:4])}"
    statement += (
        ". ACS on PCIe bridges, or the IOMMU, sends peer traffic to the root: turn ACS off (BIOS, setpci, pci=noacs), "
        "iommu=pt; NCCL_P2P_DISABLE=1 goes round it and is slower. Test with p2pBandwidthLatencyTest"
    )
    evidence = tuple(line.origin.reference for line in peers[:2])
    evidence += (first.origin.reference,)
    evidence += tuple(f"{port.source}#L{port.line}" for port in redirecting[:2])
    hosts = tuple(sorted({host for line in peers if (host := context.roster.host(line.origin.host)) is not None}))
    return [
        Finding(
            NAME,
            Plane.NCCL_LOG,
            statement,
            evidence,
            accuse(
                Subkind.ALL_ENTERED_NONE_LEFT,
                Confidence.LIKELY,
                victims=context.world,
                hosts=hosts,
                scope=Scope.NODE,
                at=context.first_timeout,
            ),
        )
    ]


def _words(context: Context) -> set[str]:
    """Words between GPUs in the captured matrices."""
    return {
        word
        for matrix in context.evidence.of(TopologyMatrix)
        if matrix.kind == "m"
        for (row, column), word in matrix.cells.items()
        if row.startswith("GPU") and column.startswith("GPU") and row != column
    }
