"""Kernel: GPUs that are lost or must be reset, by Xid and SXid; the first primary one on a node is the root.

Blind to software hangs, and to everything where the kernel log was not collected.
"""

from __future__ import annotations

from rankmuster.diagnose import buses
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import vanished
from rankmuster.diagnose.finding import Accusation, Finding, Gpu, accuse, quoted
from rankmuster.model.fault import Confidence, Phase, Scope, Subkind
from rankmuster.model.kernel import GpuAfter, SXid, Xid
from rankmuster.model.plane import Plane
from rankmuster.model.topology import NvlinkStatus

NAME = "gpu-errors"

LOST = frozenset({GpuAfter.LOST, GpuAfter.RESET, GpuAfter.UNUSABLE, GpuAfter.NO_NVLINK})
"""States after which the GPU carries no collective until somebody acts."""

VERDICT = 154
"""The driver's own conclusion: what has to be done to the GPU (`nvmlDeviceGpuRecoveryAction`)."""

MEMORY = frozenset({48, 63, 64, 94, 95, 171, 172})
"""Xids of the GPU's memory; contained ones leave it usable, unless the driver asks for more."""

CLEAN_UP = 45
"""Preemptive clean-up after another error, or after a killed CUDA program: it names no cause (Xid catalogue)."""

HARMLESS = frozenset({63, 92, 37, 38, 44, 66, 67, 122, 123, 124, 125, 141, 162, 163, 164, 165})
"""Xids after which no context dies and that NVIDIA's catalogue says to ignore, or to report at leisure: remapping
recorded, single-bit errors, FECS, register access, InfoROM, power smoothing."""

STATES = {
    GpuAfter.LOST: "the GPU is lost until somebody acts",
    GpuAfter.RESET: "the GPU needs a reset",
    GpuAfter.NO_NVLINK: "the GPU is without its NVLinks until it is reset",
    GpuAfter.UNUSABLE: "the GPU is unusable until the node is rebooted or repaired",
}

DECISIVE_CODES = frozenset({79, 48, 62, 74, 95, 119, 120, 140, 149, 158})
"""Xids that cannot be read otherwise: bus loss, uncontained memory errors, dead firmware, fatal links."""


def detect(context: Context) -> list[Finding]:
    """One finding for the root of the GPU errors, one for those that only end their own process, one for switches."""
    xids = context.evidence.of(Xid)
    primary = [xid for xid in xids if not xid.secondary]
    demands = {(xid.origin.host, xid.bus_id): xid for xid in xids if xid.code == VERDICT and xid.after in LOST}
    lost = [
        xid
        for xid in primary
        if xid.after in LOST or xid.fatal or (xid.code in MEMORY and (xid.origin.host, xid.bus_id) in demands)
    ]
    found: list[Finding] = []
    switches = [
        sxid for sxid in context.evidence.of(SXid) if sxid.effect in ("fabric", "partition", "hang") or sxid.fatal
    ]
    if switches:
        primary = [xid for xid in primary if not (xid.code == CLEAN_UP and _beside(xid, switches))]
    if lost:
        found.append(_lost(context, lost, xids, demands.get((lost[0].origin.host, lost[0].bus_id))))
    else:
        found += vanished.detect(context) or _context_killers(context, primary, xids)
    if switches:
        found.append(_switches(context, switches, [xid for xid in xids if xid.code == CLEAN_UP]))
    found += [
        Finding(NAME, Plane.TOPOLOGY, f"nvidia-smi nvlink, GPU {status.gpu}: {status.note}", (status.source,))
        for status in context.evidence.of(NvlinkStatus)
        if status.note
    ]
    return found


def rank_of(context: Context, xid: Xid) -> int | None:
    """The rank whose process or GPU the line names."""
    by_pid = context.roster.of_process(xid.origin.host, xid.pid)
    if by_pid is not None:
        return by_pid
    fitting = buses.users(context, xid.bus_id, xid.origin.host)
    return fitting[0] if len(fitting) == 1 else None


def _lost(context: Context, lost: list[Xid], xids: tuple[Xid, ...], demand: Xid | None) -> Finding:
    root = lost[0]
    same = [xid for xid in lost if xid.bus_id == root.bus_id and xid.origin.host == root.origin.host]
    rank = rank_of(context, root)
    others = sorted({xid.bus_id for xid in xids if xid.bus_id != root.bus_id})
    statement = f"Xid {root.code} on GPU {root.bus_id}: {root.meaning} ({quoted(root.text)})"
    if others:
        statement += f"; the lines of {', '.join(others[:8])} follow from it"
    if demand is not None:
        statement += f"; the driver asks for: {demand.recovery_action or demand.text[:80]} (Xid {demand.code})"
    before = vanished.bus_errors(context, root)
    if before is not None:
        statement += f"; PCIe (AER) had reported: {quoted(before.text)}"
    after = demand.after if demand is not None and root.after not in LOST else root.after
    state = STATES.get(after, "it needs attention")
    node = root.origin.host or (context.job.rank(rank).host if rank is not None else None)
    confirmed = root.code in DECISIVE_CODES or len(same) > 1
    accusation = accuse(
        Subkind.GPU_LOST,
        Confidence.CONFIRMED if confirmed else Confidence.LIKELY,
        culprits=(rank,) if rank is not None else (),
        victims=tuple(other for other in context.world if other != rank) if rank is not None else (),
        gpus=(Gpu(node, root.bus_id, f"Xid {root.code}: {root.meaning}; {state}"),),
        hosts=(node,) if node else (),
        why={rank: f"uses GPU {root.bus_id}, which reported Xid {root.code} ({root.meaning}): {state}"}
        if rank is not None
        else {},
        scope=Scope.NODE,
        at=context.time(root.origin.stamp),
        decisive=confirmed,
    )
    if rank is None and buses.of_nobody(context):
        return Finding(NAME, Plane.KERNEL, f"{statement}. No rank uses that GPU", (root.origin.reference,))
    evidence = tuple(xid.origin.reference for xid in (*same, *[x for x in xids if x not in same]))[:10]
    return Finding(NAME, Plane.KERNEL, statement, evidence, accusation)


def _context_killers(context: Context, primary: list[Xid], xids: tuple[Xid, ...]) -> list[Finding]:
    """Xids after which the GPU is fine and the process that owned the context is not (13, 31, 43, 94, ...)."""
    telling = [xid for xid in primary if xid.code not in HARMLESS and xid.after is GpuAfter.OK]
    if not telling:
        # The driver itself names what made it tear down a program's channels (`caused by previous Xid N`).
        named = {(xid.origin.host, xid.bus_id, xid.caused_by) for xid in xids if xid.caused_by is not None}
        telling = [xid for xid in xids if (xid.origin.host, xid.bus_id, xid.code) in named]
    return [_context_killer(context, xid) for xid in telling[:1]]


def _context_killer(context: Context, xid: Xid) -> Finding:
    rank = rank_of(context, xid)
    who = f"{xid.process or 'process'} (pid {xid.pid})" if xid.pid is not None else "its program"
    statement = (
        f"Xid {xid.code} on GPU {xid.bus_id}: {xid.meaning}; the GPU survives it, the CUDA context does not "
        f"({who}: {quoted(xid.text)})"
    )
    # A clean-up says that a context ended, and neither why nor who began.
    lead_only = xid.code == CLEAN_UP
    accusation: Accusation | None = None
    if rank is None and not any(known.pid or known.bus_id for known in context.roster.ranks):
        # Nobody is known to own the GPU or the process: the report is about this line.
        reason = f"Xid {xid.code} ended the CUDA context of {who}: {xid.meaning}"
        pid = None if lead_only else xid.pid
        accusation = accuse(
            Subkind.EXITED,
            Confidence.POSSIBLE if lead_only else Confidence.LIKELY,
            gpus=(Gpu(xid.origin.host, xid.bus_id, reason, broken=False, pid=pid),),
            hosts=(xid.origin.host,) if xid.origin.host else (),
            scope=Scope.RANK,
            at=context.time(xid.origin.stamp),
        )
    if rank is not None:
        accusation = accuse(
            Subkind.EXITED,
            Confidence.POSSIBLE if lead_only else Confidence.LIKELY,
            culprits=() if lead_only else (rank,),
            suspects=(rank,) if lead_only else (),
            victims=() if lead_only else tuple(other for other in context.world if other != rank),
            why={rank: f"lost its CUDA context to Xid {xid.code}: {xid.meaning}"},
            scope=Scope.RANK,
            at=context.time(xid.origin.stamp),
        )
    wanted = "what stands before it in the kernel log, and whether somebody ended that program" if lead_only else None
    return Finding(NAME, Plane.KERNEL, statement, (xid.origin.reference,), accusation, would_decide=wanted)


def _beside(xid: Xid, switches: list[SXid]) -> bool:
    """Whether a switch of the same host reported an error that a clean-up of contexts follows from."""
    for sxid in switches:
        one, other = sxid.origin, xid.origin
        if one.source == other.source:
            if one.line < other.line:
                return True
        elif one.host == other.host or None in (one.host, other.host):
            return True
    return False


def _switches(context: Context, serious: list[SXid], clean_ups: list[Xid]) -> Finding:
    root = serious[0]
    host = root.origin.host
    where = f"NVSwitch {root.bus_id}" + (f" link {root.link}" if root.link is not None else "")
    statement = f"SXid {root.code} on {where}: {quoted(root.text)} (effect: {root.effect})"
    if root.effect == "hang":
        statement += ". The NVLink traffic of the GPU at that port stands, whatever the line's own word is"
    after = [xid for xid in clean_ups if _beside(xid, serious)]
    if after:
        buses = ", ".join(sorted({xid.bus_id for xid in after})[:8])
        statement += f". Xid {CLEAN_UP} of GPU {buses} is the clean-up that follows"
    evidence = tuple(sxid.origin.reference for sxid in serious[:6])
    evidence += tuple(xid.origin.reference for xid in after[:4])
    accusation = accuse(
        Subkind.LINK_ERROR,
        Confidence.CONFIRMED if root.fatal else Confidence.LIKELY,
        hosts=(host,) if host else (),
        links=(where,),
        gpus=(),
        scope=Scope.NODE,
        phase=Phase.SERVING,
        at=context.time(root.origin.stamp),
        decisive=bool(root.fatal),
    )
    return Finding(NAME, Plane.KERNEL, statement, evidence, accusation)
