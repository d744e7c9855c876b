"""What systemd, the fabric manager and the persistence daemon say of the services that GPUs and networks need."""

from __future__ import annotations

import re

from rankmuster.evidence import fabric_manager, names, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.kernel_line import Line, split
from rankmuster.evidence.log_lines import marked
from rankmuster.evidence.text import seen
from rankmuster.model.kernel import KernelOrigin, ServiceEvent, ServiceEventKind, SXid
from rankmuster.model.plane import Plane

Kind = ServiceEventKind

_WORDS = (
    "systemd[",
    '"systemd"',
    "[tid ",
    "nv-fabricmanager",
    "nvidia-fabricmanager",
    "nvidia-persistenced",
    "nvidia-imex",
)

_TAGS = frozenset({"systemd", "nv-fabricmanager", "nvidia-fabricmanager", "nvidia-persistenced", "nvidia-imex"})
"""Who speaks here, of trouble or not: a journal in which all is well is read, too."""

_BEARS = re.compile(
    r"^(?:nvidia\w*|nv[-_]\w+|openibd?|opensm\w*|rdma|ibacm|mlnx\w*|mst|srp_daemon|dcgm|gpud|nvsm|kubelet|"
    r"containerd|docker|crio|cri-o|slurm\w*|munge|NetworkManager|systemd-networkd|network|networking|firewalld|iptables|nftables|lldpad|lldpd|"
    r"vllm|sglang|trtllm|tritonserver|triton|dynamo|ray|rankmuster)(?![a-z])"
)
"""Units by name: what keeps GPUs, fabrics and networks up, what runs the containers, and the engines themselves."""

_DESCRIPTIONS = {
    "nvidia fabric manager service": "nvidia-fabricmanager",
    "nvidia persistence daemon": "nvidia-persistenced",
    "nvidia imex service": "nvidia-imex",
    "nvidia dcgm service": "nvidia-dcgm",
    "kubelet: the kubernetes node agent": "kubelet",
    "containerd container runtime": "containerd",
    "docker application container engine": "docker",
    "slurm node daemon": "slurmd",
    "openibd - configure mellanox devices": "openibd",
    "rdma node description daemon": "rdma-ndd",
    "network manager": "NetworkManager",
    "network configuration": "systemd-networkd",
    "network service": "systemd-networkd",
}
"""Before systemd 249 job lines carry only the description."""

_DAEMON = re.compile(r"^(systemd|nv-fabricmanager|nvidia-[\w\-]{1,40})(?:\[\d{1,10}\])?: ")
_UNIT = r"(?P<unit>[\w@:.\\\-]{1,200})\.service"
_TEMPLATES: tuple[tuple[re.Pattern[str], ServiceEventKind], ...] = (
    (re.compile(rf"^{_UNIT}: Scheduled restart job"), Kind.RESTARTED),
    (re.compile(rf"^{_UNIT}: Start request repeated too quickly"), Kind.FAILED),
    (re.compile(rf"^{_UNIT}: (?:Failed with result|Unit entered failed state)"), Kind.FAILED),
    (re.compile(rf"^{_UNIT}: (?:Main|Control) process exited, code=(?:killed|dumped)"), Kind.FAILED),
    (re.compile(rf"^{_UNIT}: (?:Main|Control) process exited, code=exited, status=[1-9]"), Kind.FAILED),
    (re.compile(rf"^{_UNIT}: .{{0,40}}(?:timed out|killed by the OOM killer|Watchdog timeout)"), Kind.ERROR),
    (re.compile(rf"^{_UNIT}: (?:Deactivated successfully|Succeeded)"), Kind.STOPPED),
)
_JOB = re.compile(
    r"^(Started|Starting|Stopped|Stopping|Restarting|Restarted|Failed to start|Dependency failed for) (.{1,300})$"
)
_JOBS = {
    "Started": Kind.STARTED,
    "Starting": Kind.STARTING,
    "Stopped": Kind.STOPPED,
    "Stopping": Kind.STOPPING,
    "Restarting": Kind.RESTARTED,
    "Restarted": Kind.RESTARTED,
    "Failed to start": Kind.FAILED,
    "Dependency failed for": Kind.FAILED,
}
_PERSISTENCE_ERROR = re.compile(r"Failed to|Unable to|error", re.IGNORECASE)


def _recognises(blob: Blob) -> bool:
    data = seen(blob.data)
    return any(word.encode() in data for word in _WORDS)


def _read(blob: Blob) -> Reading:
    path_host = names.host_of(blob.path)
    manager = fabric_manager.service_of(blob.data)
    found: list[ServiceEvent | SXid] = []
    known = 0
    for number, raw in marked(blob, _WORDS):
        own = fabric_manager.LINE.match(raw)
        if own:
            known += 1
            origin = KernelOrigin(blob.path, number, path_host, times.syslog(own.group(1)))
            event = fabric_manager.event(origin, manager, own.group(2), raw[own.end() :])
        else:
            line = _daemon(split(raw))
            if line.tag is None:
                continue
            event = _event(KernelOrigin(blob.path, number, line.host or path_host, line.stamp), line)
            known += event is not None or line.tag in _TAGS
        if event is not None:
            found.append(event)
    return Reading(tuple(found), (), known)


def _daemon(line: Line) -> Line:
    """dmesg carries systemd's lines too, behind the kernel's prefix."""
    match = _DAEMON.match(line.text) if line.from_kernel else None
    return Line(line.host, line.stamp, match.group(1), line.text[match.end() :]) if match else line


def _event(origin: KernelOrigin, line: Line) -> ServiceEvent | SXid | None:
    tag, text = line.tag or "", line.text
    if tag == "systemd":
        return _systemd(origin, text)
    if tag in ("nv-fabricmanager", "nvidia-fabricmanager"):
        return fabric_manager.event(origin, fabric_manager.FABRIC_MANAGER, None, text)
    if tag == fabric_manager.IMEX:
        return fabric_manager.event(origin, fabric_manager.IMEX, None, text)
    if tag == "nvidia-persistenced" and _PERSISTENCE_ERROR.search(text):
        return ServiceEvent(origin, tag, Kind.ERROR, text)
    return None


def _systemd(origin: KernelOrigin, text: str) -> ServiceEvent | None:
    for pattern, kind in _TEMPLATES:
        match = pattern.match(text)
        if match:
            unit = match.group("unit")
            return ServiceEvent(origin, unit, kind, text) if _BEARS.match(unit) else None
    job = _JOB.match(text)
    if job is None:
        return None
    service = _service(job.group(2).rstrip("."))
    return ServiceEvent(origin, service, _JOBS[job.group(1)], text) if service else None


def _service(said: str) -> str | None:
    """The unit in `x.service`, `x.service - Description` or a description alone; None for units that do not bear."""
    unit, dot, _ = said.partition(".service")
    if dot and " " not in unit:
        return unit if _BEARS.match(unit) else None
    described = _DESCRIPTIONS.get(said.strip().lower())
    if described:
        return described
    first = said.split(" ", 1)[0].removesuffix(":")
    return first if _BEARS.match(first) else None


READER = Reader("service-journal", Plane.KERNEL, ReaderKind.LINES, _recognises, _read)
