"""The kernel plane: Xid and SXid, OOM kills, PCIe and link events, and what service journals say beside them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.stamp import Stamp


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    source: str
    line: int
    host: str | None  # from the file's path or a syslog prefix
    stamp: Stamp | None

    @property
    def reference(self) -> str:
        """`nccl/rank2.log#L17`: how findings point at this line."""
        return f"{self.source}#L{self.line}"


class GpuAfter(str, Enum):
    """What an Xid leaves of the GPU (NVIDIA Xid catalogue)."""

    OK = "ok"
    RESET = "reset"
    LOST = "lost"
    NO_NVLINK = "no_nvlink"
    UNUSABLE = "unusable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Xid:
    """`NVRM: Xid (PCI:0000:9b:00): 79, ...`. `bus_id` normalised to dddd:bb:dd, lower case.

    `secondary`: known to follow something else (45, 154, 63/64 after 48, `caused by previous Xid N`, ...).
    `caused_by`: the Xid the driver itself names as the cause.
    """

    origin: KernelOrigin
    code: int
    bus_id: str
    pid: int | None
    process: str | None
    text: str
    meaning: str
    after: GpuAfter
    secondary: bool
    caused_by: int | None = None
    fatal: bool | None = None  # from the line's own word, NVLink5 units
    recovery_action: str | None = None  # Xid 154: the new action
    mig: str | None = None  # "GPU-I:05 GPU-CI:02": only that partition
    link: int | None = None  # NVLink number, 74 and 144-150
    lead: str | None = None  # what the NVLink5 sub-code points at: "peer device", "signal integrity", ...


@dataclass(frozen=True, slots=True)
class SXid:
    """An NVSwitch error. `effect`: none, slow, hang, partition, fabric, or unknown (no table has it, no word says it).

    `first`: the driver's ` (First)`, the first error of its unit.
    """

    origin: KernelOrigin
    code: int
    bus_id: str
    link: int | None
    fatal: bool | None
    effect: str
    text: str
    first: bool = False


@dataclass(frozen=True, slots=True)
class GpuUuid:
    """The line that ties a PCI address to a UUID."""

    origin: KernelOrigin
    bus_id: str
    uuid: str


@dataclass(frozen=True, slots=True)
class OomKill:
    """The kernel's out-of-memory killer ended `pid`. `cgroup`: a container's limit, not the node's."""

    origin: KernelOrigin
    pid: int
    process: str | None
    cgroup: bool
    text: str
    memory_cgroup: str | None = None  # the killed task's cgroup; kubernetes writes the pod's UID into it


class KernelEventKind(str, Enum):
    AER = "aer"
    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    BOND_DOWN = "bond_down"
    NIC_ERROR = "nic_error"  # cable, module, firmware health
    TX_TIMEOUT = "tx_timeout"
    SEGFAULT = "segfault"
    HUNG_TASK = "hung_task"
    LOCKUP = "lockup"
    MACHINE_CHECK = "machine_check"
    IOMMU_FAULT = "iommu_fault"
    NVLINK_TRAINING = "nvlink_training"
    PCIE_WIDTH = "pcie_width"
    PEERMEM = "peermem"  # weak: an exit race
    GPU_INIT = "gpu_init"  # the driver cannot start the GPU
    GSP_STALL = "gsp_stall"  # the driver gave up printing GSP time-outs: needs a reset
    PANIC = "panic"


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """Anything else of the kernel log that bears on communication. `fatal`: by its own word."""

    origin: KernelOrigin
    kind: KernelEventKind
    device: str | None  # PCI address or interface
    pid: int | None
    process: str | None
    fatal: bool | None
    text: str


class ServiceEventKind(str, Enum):
    STARTING = "starting"
    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"
    RESTARTED = "restarted"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """A line of systemd's journal or of the fabric manager's log. `service` without `.service`."""

    origin: KernelOrigin
    service: str
    kind: ServiceEventKind
    text: str
