"""Whole hosts that are gone, as schedulers, clusters and their own kernels say it; and kernels that stand still.

A scheduler that gives a node up has waited for it: it is a loss, not a late answer. Blind to hosts that nobody watches.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import WorkerDeath
from rankmuster.model.kernel import KernelEvent, KernelEventKind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "hosts"

NODE = "node "
"""What the name of a WorkerDeath begins with where a node, not a process, was given up."""

LEADS = {
    KernelEventKind.HUNG_TASK: "a task is blocked in the kernel",
    KernelEventKind.LOCKUP: "a processor is stuck in the kernel",
    KernelEventKind.MACHINE_CHECK: "the hardware reports a machine check",
    KernelEventKind.IOMMU_FAULT: "the IOMMU refused a device's access (peer-to-peer and GPU Direct go through it)",
    KernelEventKind.PCIE_WIDTH: "a PCIe link is narrower or slower than its device",
}
"""Kernel events that accuse nobody by themselves and that a person wants to see."""


def detect(context: Context) -> list[Finding]:
    """At most one lost host, and one finding for what the kernel said besides."""
    found = _nodes(context) or _panic(context)
    events = [event for event in context.evidence.of(KernelEvent) if event.kind in LEADS]
    if events:
        kinds = {event.kind: event for event in reversed(events)}
        told = "; ".join(f"{LEADS[kind]}: {quoted(event.text)}" for kind, event in kinds.items())
        evidence = tuple(event.origin.reference for event in events[:4])
        found.append(Finding(NAME, Plane.KERNEL, f"The kernel log also says: {told}", evidence))
    return found


def _nodes(context: Context) -> list[Finding]:
    deaths = [death for death in context.evidence.of(WorkerDeath) if death.worker.startswith(NODE) and death.host]
    if not deaths:
        return []
    first = deaths[0]
    evidence = tuple(death.origin.reference for death in deaths[:4])
    statement = f"{first.engine} gave up the node {first.host}: {quoted(first.text, 240)}"
    time = context.time(first.origin.stamp)
    return [_lost(context, Plane.FRAMEWORK_LOG, first.host or "", statement, evidence, time)]


def _panic(context: Context) -> list[Finding]:
    panics = [event for event in context.evidence.of(KernelEvent) if event.kind is KernelEventKind.PANIC]
    if not panics:
        return []
    first = panics[0]
    host = context.roster.host(first.origin.host) or ""
    statement = f"The kernel of {host or 'a host'} stopped: {quoted(first.text)}"
    evidence = (first.origin.reference,)
    return [_lost(context, Plane.KERNEL, host, statement, evidence, context.time(first.origin.stamp))]


def _lost(
    context: Context, plane: Plane, name: str, statement: str, evidence: tuple[str, ...], at: float | None
) -> Finding:
    host = context.roster.host(name) or name
    ranks = tuple(rank.rank for rank in context.roster.ranks if host and (rank.host == host or host in rank.aliases))
    named = ranks if 0 < len(ranks) < len(context.world) else ()
    if named:
        statement += f": {ranks_text(named)} ran there"
    accusation = accuse(
        Subkind.HOST_LOST,
        Confidence.LIKELY,
        culprits=named,
        victims=tuple(rank for rank in context.world if rank not in named) if named else (),
        hosts=(host,) if host else (),
        why=dict.fromkeys(named, f"ran on {host}, which was lost"),
        scope=Scope.NODE,
        at=at,
    )
    return Finding(NAME, plane, statement, evidence, accusation)
