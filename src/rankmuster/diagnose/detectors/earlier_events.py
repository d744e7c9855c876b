"""Kernel: what it wrote before the instance was started, which accuses nobody of it (see `bygone`).

Said in one sentence, so that nobody wonders why a line of the log is not in the verdict.
"""

from __future__ import annotations

from collections import Counter

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, counted
from rankmuster.model.kernel import GpuAfter, KernelEvent, KernelEventKind, OomKill, SXid, Xid
from rankmuster.model.plane import Plane

NAME = "earlier-events"

WORDS = {KernelEventKind.SEGFAULT: "crash", KernelEventKind.AER: "PCIe error"}

LASTING = frozenset({GpuAfter.LOST, GpuAfter.UNUSABLE, GpuAfter.RESET, GpuAfter.NO_NVLINK})


def detect(context: Context) -> list[Finding]:
    """One statement: how many of what, and which GPUs had needed somebody's hand."""
    bygone = context.bygone
    if bygone is None:
        return []
    kinds = Counter(_word(event) for event in bygone.events)
    told = ", ".join(
        counted(number, word, f"{word}es" if word.endswith("sh") else None) for word, number in kinds.items()
    )
    statement = f"Left aside: {told} that the kernel wrote before the instance was started"
    broken = sorted({event.bus_id for event in bygone.events if isinstance(event, Xid) and event.after in LASTING})
    if broken:
        statement += f". GPU {', '.join(broken[:8])} was among them with an error that lasts until it is reset"
    return [Finding(NAME, Plane.KERNEL, statement, tuple(event.origin.reference for event in bygone.events[:4]))]


def _word(event: Xid | SXid | OomKill | KernelEvent) -> str:
    if isinstance(event, Xid):
        return f"Xid {event.code}"
    if isinstance(event, SXid):
        return f"SXid {event.code}"
    if isinstance(event, OomKill):
        return "out-of-memory kill"
    return WORDS.get(event.kind, event.kind.value.replace("_", " "))
