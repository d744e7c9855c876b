"""What mends an init that a warning stopped, with the settings, interfaces and devices that the evidence names.

Sources: NCCL's troubleshooting and environment pages, and what its maintainers answered to reports (tests/reports).
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.not_ready import bad_services
from rankmuster.diagnose.finding import quoted
from rankmuster.diagnose.lookup import bus_id_of
from rankmuster.model.fault import Subkind
from rankmuster.model.kernel import ServiceEventKind
from rankmuster.model.nccllog import NcclInterface, NcclProblem, NcclProblemKind, NcclSetting

Kind = NcclProblemKind

DRIVER_OLD = "driver version is insufficient"


IMEX = "imex"
"""In the name of the service that hands GPU memory between the nodes of one NVLink domain."""

BROKEN = frozenset({ServiceEventKind.FAILED, ServiceEventKind.ERROR})
ENDED = frozenset({ServiceEventKind.STOPPING, ServiceEventKind.STOPPED})

HAPPENED = {
    ServiceEventKind.STARTING: "was starting",
    ServiceEventKind.STARTED: "was started",
    ServiceEventKind.STOPPING: "was stopping",
    ServiceEventKind.STOPPED: "was stopped",
    ServiceEventKind.RESTARTED: "was restarted",
    ServiceEventKind.FAILED: "had failed",
    ServiceEventKind.ERROR: "had reported an error",
}


def settings_text(context: Context, names: tuple[str, ...] | None = None, limit: int = 8) -> str:
    """`NCCL_NET=IB, ...`: NCCL's settings as logged or in the environment; all of them without `names`."""
    found = dict(context.facts.environment) if context.facts else {}
    found.update({line.name: line.value for line in context.evidence.of(NcclSetting)})
    wanted = [f"{name}={value}" for name, value in found.items() if name.startswith("NCCL_")]
    if names is not None:
        wanted = [f"{name}={found[name]}" for name in names if name in found]
    return ", ".join(wanted[:limit])


def advice(context: Context, kind: NcclProblemKind, subkind: Subkind | None, lines: list[NcclProblem]) -> str:
    text = lines[0].text
    if subkind is Subkind.FABRIC_NOT_READY:
        return _fabric(context, kind)
    if subkind is Subkind.VERSION_MISMATCH:
        return ". Give every rank the same NCCL (one image, one LD_LIBRARY_PATH, one wheel)"
    if kind is Kind.NO_INTERFACE:
        return _interface(context)
    if kind is Kind.RESOURCE:
        return (
            ". Raise the limit where the ranks start: open files (`ulimit -n`, docker --ulimit nofile, LimitNOFILE), "
            "or threads and processes (`ulimit -u`, docker --pids-limit, the pod's pids limit)"
        )
    if kind is Kind.NET_PLUGIN:
        said = settings_text(context, ("NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_HCA", "NCCL_IB_DISABLE"))
        return (
            f". Settings there: {said or 'none logged'}: NCCL_NET asks for one network only; see that its adapters are "
            "visible to the process (/dev/infiniband), or take the setting away"
        )
    if kind is Kind.SHM and not any("No space left" in line.text for line in lines):
        return (
            ". /dev/shm is too small or full there, or the container forbids it: docker --shm-size=1g or --ipc=host, "
            "in kubernetes an emptyDir with medium Memory on /dev/shm. Where there is room, NCCL 2.24 and later may "
            "lack NUMA access in the container: --cap-add SYS_NICE, or NCCL_CUMEM_HOST_ENABLE=0"
        )
    if kind is Kind.SHM:
        return (
            ". /dev/shm is too small or full there: give the container more (docker --shm-size=1g or --ipc=host; in "
            "kubernetes an emptyDir with medium Memory on /dev/shm), and remove stale /dev/shm/nccl-* files"
        )
    if kind is Kind.GDR_MEMORY:
        return (
            ". Locked memory is limited there: set memlock to unlimited (`ulimit -l`, docker --ulimit memlock=-1, "
            "limits.conf, LimitMEMLOCK of the service that starts the ranks); with GPU Direct RDMA see that "
            "nvidia_peermem is loaded"
        )
    if kind is Kind.DUPLICATE_GPU:
        return _duplicate(lines)
    if kind is Kind.CONNECT_FAILED:
        return _unreachable(context, text)
    if kind in (Kind.BOOTSTRAP, Kind.SOCKET_ERROR):
        return (
            ". Something else answered there or speaks another version: a rank of another job or start, another NCCL, "
            "or a port scanner; see that all ranks have one version and one rendezvous"
        )
    if DRIVER_OLD in text:
        return ". The driver of this host is older than the CUDA runtime needs: update the driver or use an older image"
    if kind is Kind.P2P_DISABLED:
        return ". The link's hardware or the driver is at fault: look at `nvidia-smi nvlink -s` and the kernel log"
    return ""


def _fabric(context: Context, kind: NcclProblemKind) -> str:
    # What failed tells more than what was started beside it.
    every = bad_services(context, every=True)
    services = [event for event in every if event.kind in BROKEN] or every
    imex = bool(services) and IMEX in services[-1].service.lower()
    if services:
        last = services[-1]
        name = "the IMEX service" if imex else "the Fabric Manager"
        again = last.kind is ServiceEventKind.STARTED and any(event.kind in ENDED for event in services)
        happened = HAPPENED[ServiceEventKind.RESTARTED if again else last.kind]
        advice = f"; {name} {happened} before it ({quoted(last.text, 160)})"
    else:
        advice = "; look at the Fabric Manager of this node (and at IMEX where NVLink spans nodes)"
    if imex:
        advice += (
            ". IMEX has to run on every node of the NVLink domain before CUDA programs start: see its own log and the "
            "nodes it is told of (`nvidia-imex-ctl -N`), end the CUDA programs and start it again"
        )
    else:
        advice += (
            ". The Fabric Manager has to run before, and must not be restarted under, CUDA programs: end them, reset "
            "the GPUs or reboot"
        )
    if kind is Kind.NVLS:
        return advice + "; NCCL_NVLS_ENABLE=0 goes round it meanwhile"
    if kind is Kind.MNNVL:
        return advice + "; NCCL_MNNVL_ENABLE=0 goes round it meanwhile"
    return advice


def _interface(context: Context) -> str:
    values = {line.value: None for line in context.evidence.of(NcclSetting) if line.name == "NCCL_SOCKET_IFNAME"}
    environment = dict(context.facts.environment) if context.facts else {}
    if "NCCL_SOCKET_IFNAME" in environment:
        values[environment["NCCL_SOCKET_IFNAME"]] = None
    if values:
        return (
            f". NCCL_SOCKET_IFNAME is {', '.join(values)}, which fits no interface that is up there: compare it with "
            "`ip addr` on each host (`=` asks for the exact name, `^` excludes)"
        )
    return ". See which interfaces are up there (`ip addr`), and set NCCL_SOCKET_IFNAME to the one that all hosts share"


def _duplicate(lines: list[NcclProblem]) -> str:
    found = {m.group(1) for line in lines for m in re.finditer(r"CUDA device ([0-9a-f]{1,12})\b", line.text)}
    devices = sorted(f"{own} ({bus_id_of(own)})" if bus_id_of(own) else own for own in found)
    return (
        f". GPU {', '.join(devices)} is given to more than one rank" if devices else ""
    ) + ". Give each its own: torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES, no more ranks than GPUs"


def _unreachable(context: Context, text: str) -> str:
    lower = text.lower()
    if "no route to host" in lower:
        advice = ". A firewall that rejects, or a missing route: open the ports between the hosts"
    elif "refused" in lower:
        advice = ". Nobody listens there: that process has ended, or the address is another job's or an earlier start's"
    else:
        advice = ". The address cannot be reached from there: a firewall, a route, or an interface of one host only"
    chosen = sorted(
        {
            f"{name}:{address}" if address else name
            for line in context.evidence.of(NcclInterface)
            if line.role == "bootstrap"
            for name, address in line.interfaces[:1]
        }
    )
    if chosen:
        advice += f". The bootstrap uses {', '.join(chosen[:6])}"
    return advice + "; NCCL_SOCKET_IFNAME chooses the interface that all hosts share"
