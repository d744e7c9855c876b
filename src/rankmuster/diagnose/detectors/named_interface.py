"""Hardware: the interface that the instance's own settings send its traffic over is down, while the instance stands.

Asked only where nothing advances, and nothing else accuses or all have entered and none has left: an interface without
a carrier explains that, and says nothing beside a rank that is missing. Where nobody knows whether it has stopped, but
ranks stand in calls, it is a lead: those of one host reach each other by a dead interface's address. Blind to
interfaces of other network namespaces (a pod's, seen from its node), to a link that fails further on, and to which of
its two ends failed.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.op_names import op_name
from rankmuster.diagnose.ports import is_active, ports
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.weigh import Outcome
from rankmuster.model.fault import Confidence, Progress, Scope, Subkind
from rankmuster.model.nccllog import NcclInterface
from rankmuster.model.network import PortKind
from rankmuster.model.plane import Plane

NAME = "named-interface"

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
"""torch's and NCCL's variables with the names of interfaces."""


def explain(context: Context, view: ProgressView, outcome: Outcome) -> list[Finding]:
    """One finding for all such interfaces."""
    stopped = view.progress is Progress.STOPPED
    if outcome.accusation is not None and outcome.accusation.subkind is not Subkind.ALL_ENTERED_NONE_LEFT:
        return []
    if not (stopped or (view.progress is Progress.UNKNOWN and _stand(context))):
        return []
    named = _named(context)
    down = [
        port
        for port in ports(context)
        if port.track.kind is PortKind.ETHERNET
        and port.track.device in named
        and port.state is not None
        and not is_active(port.state)
    ]
    if not down:
        return []
    told = "; ".join(f"{port.label} is {port.state}, and {named[port.track.device]} names it" for port in down)
    accusation = accuse(
        Subkind.PATH_LOST,
        Confidence.LIKELY if stopped else Confidence.POSSIBLE,
        victims=context.world,
        links=tuple(port.label for port in down),
        scope=Scope.GROUP,
    )
    return [
        Finding(
            NAME,
            Plane.HARDWARE,
            f"The network interface that the instance talks over has no link: {told}",
            tuple(dict.fromkeys(port.track.source for port in down)),
            accusation,
            would_decide="the other end of that link: its port, the cable, the switch's log",
        )
    ]


def _stand(context: Context) -> bool:
    """Whether some rank stands in a call that it has not left."""
    return any(view.issued > view.finished for view in context.table.views.values())


def _named(context: Context) -> dict[str, str]:
    """Interface -> the variable that names it, of those that carry what the instance stands in."""
    environment = context.facts.environment if context.facts is not None else {}
    found: dict[str, str] = {}
    if _gloo_alone(context):
        found |= dict.fromkeys(_names(environment.get(GLOO, "")), GLOO)
    used = {
        name
        for line in context.evidence.of(NcclInterface)
        if line.role == "socket"  # its data goes over sockets, and not over RDMA
        for name, _ in line.interfaces
    }
    return found | {name: NCCL for name in _names(environment.get(NCCL, "")) if name in used}


def _names(value: str) -> tuple[str, ...]:
    """Names in full; NCCL takes prefixes too (exact ones with `=`), and `^` leaves out."""
    return () if value.startswith("^") else tuple(name for name in value.lstrip("=").split(",") if name)


def _gloo_alone(context: Context) -> bool:
    """Whether all that the recorders saw is gloo's."""
    backends = {op_name(op).backend for flight in context.table.rows.values() for op in flight.dump.columns.ops}
    return backends == {"gloo"}
