"""CUDA, nvidia-smi and service journals: GPUs that cannot be used yet, because the NVLink fabric is not up.

On NVSwitch systems CUDA answers 802 until the Fabric Manager has registered the GPUs; on systems whose NVLink spans
nodes IMEX has to run too. Blind where none of the three was collected.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.model.fault import Confidence, Phase, Scope, Subkind
from rankmuster.model.frameworklog import CudaError
from rankmuster.model.kernel import ServiceEvent, ServiceEventKind
from rankmuster.model.plane import Plane
from rankmuster.model.topology import GpuFacts

NAME = "init"

NOT_READY = re.compile(r"system not yet initialized|\b(?:CUDA|Cuda) failure 802\b|\bError 802\b")

SYSTEM_NOT_READY = 802
"""cudaErrorSystemNotReady (driver_types.h): the Fabric Manager has not registered this GPU."""

AT_START = {
    35: "the driver is older than the CUDA runtime needs: update the driver, or use an image for this driver",
    100: "no GPU is visible to this process: the container's device request, CUDA_VISIBLE_DEVICES or the driver",
    803: "driver and libcuda are of different versions: mount the driver's own libcuda, or update the driver",
}
"""cudaErrors that a program only meets at its start, and what they mean (driver_types.h)."""

BAD = frozenset({ServiceEventKind.FAILED, ServiceEventKind.ERROR, ServiceEventKind.STOPPED})
UNREGISTERED = ("in progress", "not started")
"""Fabric states before registration (nvidia-smi -q, NVML_GPU_FABRIC_STATE_*)."""


def bad_services(context: Context, *, every: bool = False) -> list[ServiceEvent]:
    """What the journal says of the Fabric Manager and IMEX: failures, or with `every` starts too."""
    return [
        event
        for event in context.evidence.of(ServiceEvent)
        if ("fabric" in event.service.lower() or "imex" in event.service.lower()) and (every or event.kind in BAD)
    ]


def detect(context: Context) -> list[Finding]:
    """At most one accusation: a fabric that is not ready, or a start that CUDA refuses."""
    errors = context.evidence.of(CudaError)
    waiting = [error for error in errors if error.code == SYSTEM_NOT_READY]
    unregistered = [facts for facts in context.evidence.of(GpuFacts) if _state(facts) in UNREGISTERED]
    if waiting or unregistered:
        return [_fabric(context, waiting, unregistered)]
    refused = [error for error in errors if error.code in AT_START]
    if not refused:
        return []
    first = refused[0]
    meaning = AT_START[first.code or 0]
    return [
        Finding(
            NAME,
            Plane.FRAMEWORK_LOG,
            f"CUDA refuses to start (error {first.code}, {quoted(first.text)}): {meaning}",
            tuple(error.origin.reference for error in refused[:4]),
            accuse(Subkind.MISCONFIGURED, Confidence.LIKELY, phase=Phase.INIT, scope=Scope.NODE),
        )
    ]


def _state(facts: GpuFacts) -> str:
    said = facts.facts.get("Fabric / State") or facts.facts.get("fabric.state") or facts.facts.get("fabric / state")
    return (said or "").strip().lower()


def _fabric(context: Context, errors: list[CudaError], unregistered: list[GpuFacts]) -> Finding:
    parts = []
    evidence: list[str] = []
    if errors:
        parts.append(f"CUDA answers {SYSTEM_NOT_READY}, {quoted(errors[0].text, 120)}")
        evidence += [error.origin.reference for error in errors[:3]]
    if unregistered:
        gpus = ", ".join(facts.bus_id or str(facts.index) for facts in unregistered[:8])
        state = unregistered[0].facts.get("Fabric / State") or unregistered[0].facts.get("fabric.state") or "not ready"
        parts.append(f"nvidia-smi shows the fabric state {state} of GPU {gpus}")
        evidence += [facts.source for facts in unregistered[:2]]
    services = bad_services(context)
    # What the service itself says tells more than that systemd saw it go.
    services = [event for event in services if event.kind is ServiceEventKind.ERROR] or services
    if services:
        parts.append(
            "the journal says: " + "; ".join(dict.fromkeys(quoted(event.text, 240) for event in services[-3:]))
        )
        evidence += [event.origin.reference for event in services[-3:]]
    statement = (
        f"The NVLink fabric is not ready: {'; '.join(parts)}. Start the Fabric Manager (nvidia-fabricmanager, of "
        "exactly the driver's version; on Blackwell with NVLSM) and wait for fabric state Completed"
    )
    hosts = tuple(
        dict.fromkeys(host for facts in unregistered if (host := context.roster.host(facts.host)) is not None)
    )
    return Finding(
        NAME,
        Plane.FRAMEWORK_LOG if errors else Plane.TOPOLOGY,
        statement,
        tuple(evidence),
        accuse(
            Subkind.FABRIC_NOT_READY,
            Confidence.CONFIRMED if errors and (unregistered or services) else Confidence.LIKELY,
            hosts=hosts,
            victims=context.world,
            phase=Phase.INIT,
            scope=Scope.NODE,
        ),
    )
