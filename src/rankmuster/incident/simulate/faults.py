"""Faults of the simulated fleet as their verdicts tell them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from rankmuster.diagnose.recovery import recovery_for
from rankmuster.model.fault import Confidence, FaultClass, Progress, Role, Scope, Subkind, SuspectKind
from rankmuster.model.incident import OpenedBy
from rankmuster.model.verdict import Suspect, Verdict


class Cause(str, Enum):
    FABRIC = "fabric"
    DRIFT = "drift"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: when the watch tells it. `healed_by_rebuild`: a class that drifts is as slow after one."""

    at: float
    instance: int
    cause: Cause
    opened_by: OpenedBy
    progress: Progress
    verdict: Verdict | None


SINGLE = (
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED, 4),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.MISSING_ENTER, 3),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, 2),
    (FaultClass.TRANSPORT_STALL, Subkind.LINK_ERROR, 1),
)
"""Background faults with their weights."""


def single(random: Random, at: float, instance: int, nodes: tuple[str, ...]) -> Fault:
    """One rank's, process's or device's, on one node."""
    class_, subclass, _ = random.choices(SINGLE, weights=[weight for *_, weight in SINGLE])[0]
    suspects = (_suspect(random.choice(nodes), Role.CULPRIT),)
    verdict = _verdict(class_, subclass, Confidence.CONFIRMED, Progress.STOPPED, suspects)
    by = OpenedBy.ENDED if subclass is Subkind.KILLED and random.random() < 0.5 else OpenedBy.STOPPED
    return Fault(at, instance, Cause.SINGLE, by, Progress.STOPPED, verdict)


def fabric(random: Random, at: float, instance: int, nodes: tuple[str, ...], inconclusive: float) -> Fault:
    """All entered and none left, or a path that is lost with both its ends suspected: one look cannot tell which."""
    if random.random() < inconclusive:
        return Fault(at, instance, Cause.FABRIC, OpenedBy.STOPPED, Progress.STOPPED, None)
    subclass = random.choice((Subkind.PATH_LOST, Subkind.ALL_ENTERED_NONE_LEFT))
    suspects = tuple(_suspect(node, Role.SUSPECT) for node in nodes)
    verdict = _verdict(FaultClass.TRANSPORT_STALL, subclass, Confidence.LIKELY, Progress.STOPPED, suspects)
    return Fault(at, instance, Cause.FABRIC, OpenedBy.STOPPED, Progress.STOPPED, verdict)


def drift(random: Random, at: float, instance: int, nodes: tuple[str, ...]) -> Fault:
    """Slower than its baseline, with a node named: what each of a class that drifts looks like by itself."""
    suspects = (_suspect(random.choice(nodes), Role.CULPRIT),)
    verdict = _verdict(FaultClass.PERFORMANCE_DEGRADATION, Subkind.DRIFT, Confidence.CONFIRMED, Progress.SLOW, suspects)
    return Fault(at, instance, Cause.DRIFT, OpenedBy.SLOW, Progress.SLOW, verdict)


def _suspect(host: str, role: Role) -> Suspect:
    return Suspect(kind=SuspectKind.NODE, host=host, role=role, why="simulated")


def _verdict(
    class_: FaultClass, subclass: Subkind, confidence: Confidence, progress: Progress, suspects: tuple[Suspect, ...]
) -> Verdict:
    return Verdict(
        class_=class_,
        subclass=subclass,
        confidence=confidence,
        progress=progress,
        scope=Scope.NODE,
        suspects=suspects,
        suspect_hosts=tuple(dict.fromkeys(one.host for one in suspects if one.host)),
        recovery=recovery_for(class_, subclass),
    )
