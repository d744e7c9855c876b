"""GPUs that are gone without an Xid: what PCIe (AER) and nvidia-smi say of them."""

from __future__ import annotations

from rankmuster.diagnose import buses
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, Gpu, accuse, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.kernel import KernelEvent, KernelEventKind, Xid
from rankmuster.model.plane import Plane
from rankmuster.model.topology import GpuFacts

NAME = "gpu-errors"
DRIVER_NAME = "gpu-driver"
"""Of its own: a monitor's container may lose its GPUs while the instance serves on."""

GONE = ("GPU is lost", "Unable to determine the device handle for")
"""nvidia-smi's words for a GPU that the driver cannot reach any more."""

DRIVER = (
    (
        "Driver/library version mismatch",
        "the driver was updated and its kernel module was not reloaded: reboot, or unload and load the nvidia modules",
    ),
    (
        "Unknown Error",
        "a container that had GPUs has lost them (systemd reloaded its cgroups): start it anew, and keep its devices "
        "(--device or CDI, cgroupfs driver)",
    ),
    ("NVIDIA-SMI has failed because", "the driver's kernel module is not loaded: build it for this kernel, or reboot"),
    ("No devices were found", "the driver runs and finds no GPU: look at the kernel log (RmInitAdapter) and lspci"),
)
"""nvidia-smi's words for a host or container without any GPU, and what they mean (NVIDIA container toolkit's pages)."""

BUS_SECONDS = 60.0
"""A bus error this near to the loss belongs to it; the driver notices a lost GPU at its next access."""


def bus_errors(context: Context, root: Xid) -> KernelEvent | None:
    """The fatal PCIe error that stands before a GPU's first Xid in the same log."""
    for event in _fatal(context):
        if event.origin.source != root.origin.source or event.origin.line > root.origin.line:
            continue
        one, other = event.origin.stamp, root.origin.stamp
        if one is None or other is None or one.kind is not other.kind or other.seconds - one.seconds <= BUS_SECONDS:
            return event
    return None


def detect(context: Context) -> list[Finding]:
    """One accusation of the first GPU that nvidia-smi or PCIe gave up."""
    complaints = [
        facts
        for facts in context.evidence.of(GpuFacts)
        if facts.bus_id is not None and any(words in facts.facts.get("error", "") for words in GONE)
    ]
    recovered = [event for event in _fatal(context) if _is_gpu(event)]
    recovered += [
        event
        for event in context.evidence.of(KernelEvent)
        if event.kind is KernelEventKind.GPU_INIT and event.device is not None
    ]
    if not complaints and not recovered:
        return _driver(context)
    if complaints:
        bus, host = complaints[0].bus_id or "?", complaints[0].host
        said = complaints[0].facts["error"]
    else:
        bus, host = recovered[0].device or "?", recovered[0].origin.host
        said = recovered[0].text
    also = [quoted(event.text) for event in recovered if complaints]
    statement = f"GPU {bus} is gone: {quoted(said)}"
    if also:
        statement += f"; the kernel says: {also[0]}"
    statement += ". Reset or reboot; if it comes again, look at its slot, power and cooling"
    known = buses.users(context, bus, host)
    culprits = tuple(known) if len(known) == 1 else ()
    evidence = tuple(facts.source for facts in complaints[:2])
    evidence += tuple(event.origin.reference for event in recovered[:4])
    plane = Plane.KERNEL if recovered else Plane.TOPOLOGY
    if not known and buses.of_nobody(context):
        return [Finding(NAME, plane, f"{statement}. No rank uses that GPU", evidence)]
    reason = f"lost its GPU {bus}: {quoted(said)}"
    accusation = accuse(
        Subkind.GPU_LOST,
        Confidence.CONFIRMED if complaints and recovered else Confidence.LIKELY,
        culprits=culprits,
        victims=tuple(rank for rank in context.world if rank not in culprits) if culprits else (),
        gpus=(Gpu(host, bus, quoted(said)),),
        hosts=(host,) if host else (),
        why=dict.fromkeys(culprits, reason),
        scope=Scope.NODE,
        at=context.time(recovered[0].origin.stamp) if recovered else None,
    )
    return [Finding(NAME, plane, statement, evidence, accusation)]


def _driver(context: Context) -> list[Finding]:
    """What nvidia-smi says where it reaches no GPU at all."""
    for facts in context.evidence.of(GpuFacts):
        said = facts.facts.get("error", "")
        meaning = next((meaning for words, meaning in DRIVER if words in said), None)
        if facts.bus_id is not None or meaning is None:
            continue
        host = context.roster.host(facts.host)
        statement = f"nvidia-smi reaches no GPU ({quoted(said)}): {meaning}"
        accusation = accuse(
            Subkind.GPU_LOST, Confidence.LIKELY, hosts=(host,) if host else (), victims=context.world, scope=Scope.NODE
        )
        return [Finding(DRIVER_NAME, Plane.TOPOLOGY, statement, (facts.source,), accusation)]
    return []


def _fatal(context: Context) -> list[KernelEvent]:
    return [
        event for event in context.evidence.of(KernelEvent) if event.kind is KernelEventKind.AER and event.fatal is True
    ]


def _is_gpu(event: KernelEvent) -> bool:
    return event.text.lstrip().startswith("nvidia ")
