"""What further evidence would settle what this evidence leaves open."""

from __future__ import annotations

from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.weigh import Outcome
from rankmuster.model.fault import Confidence, FaultClass
from rankmuster.model.plane import Plane, PlaneReport, PlaneState

WOULD_HELP = {
    Plane.RAS: "two verbose status replies, ten seconds apart, from every node",
    Plane.FLIGHT: "the dumps of all ranks, taken while it hangs",
    Plane.HARDWARE: "utilisation and link byte counters per GPU over ten seconds",
    Plane.ENGINE: "the engine's metrics page, several times over ten seconds",
    Plane.NCCL_LOG: "NCCL_DEBUG=INFO logs of every rank from their start",
    Plane.FRAMEWORK_LOG: "stderr of every rank",
    Plane.PLATFORM: "exit codes and times of all processes",
    Plane.KERNEL: "the kernel logs of all nodes",
}
"""What each silent plane would need to speak."""


def would_decide(
    findings: list[Finding], outcome: Outcome, fault: FaultClass, reports: tuple[PlaneReport, ...]
) -> tuple[str, ...]:
    """What the detectors ask for, and, where nothing is decided, what the planes that did not speak would need."""
    if fault is FaultClass.HEALTHY or (outcome.lead is not None and outcome.confidence is Confidence.CONFIRMED):
        return ()
    asked = [finding.would_decide for finding in findings if finding.would_decide is not None]
    if fault in (FaultClass.INCONCLUSIVE, FaultClass.BLIND):
        asked += [
            f"{row.plane.value}: {WOULD_HELP[row.plane]}"
            for row in reports
            if row.state is not PlaneState.SPOKE and row.plane in WOULD_HELP
        ]
    return tuple(dict.fromkeys(asked))
