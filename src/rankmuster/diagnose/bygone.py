"""Kernel events from before the instance was started: they belong to something earlier and are set aside.

A collector takes the whole kernel log, which goes back to the node's boot. What happened once (a crash, a kill, a
device's error) before the first process of the instance did not happen to it. What lasts stays: links and adapters that
went down, a driver that cannot start a GPU, services that were stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rankmuster.evidence.bundle import Evidence
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.kernel import KernelEvent, KernelEventKind, KernelOrigin, OomKill, SXid, Xid
from rankmuster.model.stamp import StampKind

START_SLACK = 30.0
"""Seconds before the start that still count: a start is known to a clock tick, while the kernel's own time, counted
from boot and turned into a date, runs away from the day's clock by seconds between two corrections."""

MOMENTS = frozenset(
    {
        KernelEventKind.AER,
        KernelEventKind.SEGFAULT,
        KernelEventKind.HUNG_TASK,
        KernelEventKind.LOCKUP,
        KernelEventKind.MACHINE_CHECK,
        KernelEventKind.IOMMU_FAULT,
        KernelEventKind.PEERMEM,
    }
)
"""Kinds that happen once; the others tell of a state."""


@dataclass(frozen=True, slots=True)
class Bygone:
    """`events`: what was set aside, in the evidence's order. `started_at`: unix seconds of the instance's start."""

    started_at: float
    events: tuple[Xid | SXid | OomKill | KernelEvent, ...]


def set_aside(evidence: Evidence) -> tuple[Evidence, Bygone | None]:
    """The evidence without what the kernel wrote before the instance's start, and that.

    Only stamps that are unix times by themselves are compared: a local time's zone is a guess.
    """
    started = start_of(evidence)
    if started is None:
        return evidence, None
    kept: dict[type, tuple[object, ...]] = {}
    old: list[Xid | SXid | OomKill | KernelEvent] = []
    for kind in (Xid, SXid, OomKill, KernelEvent):
        events: tuple[Xid | SXid | OomKill | KernelEvent, ...] = evidence.of(kind)
        gone = [_is_moment(event) and _before(event.origin, started) for event in events]
        if any(gone):
            kept[kind] = tuple(event for event, is_old in zip(events, gone, strict=True) if not is_old)
            old += [event for event, is_old in zip(events, gone, strict=True) if is_old]
    if not old:
        return evidence, None
    grouped: Mapping[type, tuple[object, ...]] = {**evidence.by_type, **kept}
    return replace(evidence, by_type=grouped), Bygone(started, tuple(old))


def start_of(evidence: Evidence) -> float | None:
    """Unix seconds of the start of the instance's first process, None unknown."""
    starts = []
    for facts in evidence.of(InstanceFacts):
        known = facts.started_at
        if known is not None and (facts.last_look is None or known <= facts.last_look):
            starts.append(known)
    return min(starts, default=None)


def _is_moment(event: Xid | SXid | OomKill | KernelEvent) -> bool:
    return not isinstance(event, KernelEvent) or event.kind in MOMENTS


def _before(origin: KernelOrigin, started: float) -> bool:
    stamp = origin.stamp
    return stamp is not None and stamp.kind is StampKind.UNIX and stamp.seconds < started - START_SLACK
