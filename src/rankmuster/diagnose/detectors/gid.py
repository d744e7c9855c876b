"""NCCL log and RDMA ports: RoCE addresses that do not route, as the reason of a network error.

Blind to InfiniBand, whose addresses a subnet manager gives, and to routes and VLANs of the network itself.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.model.nccllog import NcclInterface, NcclProblem, NcclProblemKind, NcclSetting, NcclVersionLine
from rankmuster.model.topology import RdmaPort

AUTOMATIC_GID = (2, 21)
"""From this NCCL on the GID index is chosen by NCCL itself unless NCCL_IB_GID_INDEX is set; before, it is 0."""


def address_reason(context: Context, problem: NcclProblem) -> str | None:
    """RoCE with a GID that does not route: chosen by default, link-local, or refused when the queue pair was set up."""
    if problem.kind not in (NcclProblemKind.IB_COMPLETION, NcclProblemKind.IB_QP):
        return None
    ports = context.evidence.of(RdmaPort)
    roce = any("roce" in name.lower() for line in context.evidence.of(NcclInterface) for name, _ in line.interfaces)
    roce = roce or any((port.link_layer or "").lower() == "ethernet" for port in ports)
    if not roce:
        return None
    gids = [value.lower() for key, value in problem.detail if key in ("local_gid", "remote_gid")]
    if problem.kind is NcclProblemKind.IB_QP and _routable(gids):
        return (
            f"no answer from the remote GID {gids[1]} to the local one {gids[0]}: the two do not reach each other. On "
            "networks whose rails are not joined set NCCL_CROSS_NIC=0; else look at routes, ARP and the VLAN of that "
            "address, and at NCCL_IB_GID_INDEX"
        )
    if any(gid.startswith("fe80") or set(gid) <= set("0:") for gid in gids):
        return (
            f"RoCE with the link-local GID {gids[0]}, which does not route; set NCCL_IB_GID_INDEX to the RoCE v2 entry"
        )
    settings = {line.name: line.value for line in context.evidence.of(NcclSetting)}
    environment = dict(context.facts.environment) if context.facts else {}
    index = settings.get("NCCL_IB_GID_INDEX", environment.get("NCCL_IB_GID_INDEX"))
    if index is not None:
        reason = _chosen(ports, index)
        if reason is not None:
            return reason
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


def _chosen(ports: tuple[RdmaPort, ...], index: str) -> str | None:
    """What is wrong with the index that was set: not RoCE v2, not in the table, or the first, which never routes."""
    table = [(number, value, kind) for port in ports for number, value, kind in port.gids]
    better = sorted(
        {n for n, value, kind in table if kind and "v2" in kind.lower() and not value.lower().startswith("fe80")}
    )
    advice = f"; the v2 entries are {', '.join(str(number) for number in better[:4])}" if better else ""
    kinds = [kind for number, _, kind in table if str(number) == index]
    if any(kind and "v2" not in kind.lower() for kind in kinds):
        return f"RoCE with NCCL_IB_GID_INDEX={index}, whose GID is {kinds[0]}, not RoCE v2{advice}"
    if table and not kinds:
        return f"RoCE with NCCL_IB_GID_INDEX={index}, which the GID table does not have{advice}"
    if index == "0" and not table:
        return (
            "RoCE with NCCL_IB_GID_INDEX=0, which is RoCE v1 or link-local and does not route: set it to the RoCE v2 "
            "entry of the GID table (show_gids), or leave the choice to NCCL (2.21 and later)"
        )
    return None


def _routable(gids: list[str]) -> bool:
    """Whether both ends are known and neither is link-local or empty."""
    return len(gids) > 1 and not any(gid.startswith("fe80") or set(gid) <= set("0:") for gid in gids)


def _version(context: Context) -> tuple[int, int]:
    for line in context.evidence.of(NcclVersionLine):
        parts = line.version.split(".")
        if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
            return int(parts[0]), int(parts[1])
    return (99, 0)
