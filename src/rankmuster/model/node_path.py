"""What a node's communication path is made of, as it was read: from NVML and /sys, or from captured text.

The raw material of a fingerprint. A value that could not be read is `Unknown` with the reason; an empty tuple means
that there are none, known. PCI addresses are `dddd:bb:dd.f` in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.unknown import Unknown


@dataclass(frozen=True, slots=True)
class Link:
    """A PCIe link. `generation` 1..7; `*_max`: what both ends can do; current ones fall on idle GPUs.

    All 0: the device has no PCIe link (virtual machines' own devices), which is known.
    """

    generation: int | Unknown
    width: int | Unknown
    generation_max: int | Unknown
    width_max: int | Unknown


@dataclass(frozen=True, slots=True)
class NvLink:
    """`remote`: "switch", "gpu:<index>" or "cpu"; `speed_gbps`: GB/s of one direction.

    `state`: active, inactive or sleep (which is not down).
    """

    link: int
    state: str | Unknown
    speed_gbps: float | Unknown
    version: str | Unknown
    remote: str | Unknown


@dataclass(frozen=True, slots=True)
class GpuPath:
    """`links`: NVLinks, () for none. `facts`: more of it by the words of `nvidia-smi -q` (ECC, MIG, remapped rows)."""

    index: int
    uuid: str | Unknown
    bus_id: str | Unknown
    model: str | Unknown
    vbios: str | Unknown
    numa: int | Unknown  # -1: the firmware says none (VMs)
    pcie: Link
    links: tuple[NvLink, ...] | Unknown
    mig: str | Unknown
    ecc: str | Unknown
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PciNode:
    """One device of the PCI tree, bridges included. `parent`: address of the bridge above, None at a root complex
    (`root`: "pci0000:80"). `acs_redirects`: peer-to-peer traffic is sent up to the root by this port."""

    address: str
    root: str
    parent: str | None
    class_code: str  # 0x060400
    vendor: str  # 0x10de
    device: str
    numa: int | Unknown
    link: Link
    acs_redirects: bool | Unknown


@dataclass(frozen=True, slots=True)
class NicPort:
    """`gids`: (index, gid, type)."""

    port: int
    state: str | Unknown
    link_layer: str | Unknown
    rate_gbps: float | Unknown
    mtu: int | Unknown
    gids: tuple[tuple[int, str, str | None], ...] | Unknown


@dataclass(frozen=True, slots=True)
class NicPath:
    """An RDMA device, or an Ethernet interface without one (`rdma` False). Ordered as NCCL numbers them."""

    name: str
    rdma: bool
    address: str | Unknown | None  # None: virtual, not on PCI
    model: str | Unknown
    firmware: str | Unknown
    guid: str | Unknown
    numa: int | Unknown
    netdev: str | None
    ports: tuple[NicPort, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """`nvidia-smi topo`'s matrices. `kind`: "m" (NV18, PIX, ...), "mp" (PCIe words alone), or r, w, n, a, p of -p2p.

    `cells[row, column]`: the word; labels GPU0.., NIC0..; `nics`: NIC0 -> mlx5_0.
    """

    kind: str
    cells: Mapping[tuple[str, str], str]
    nics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """As NCCL's tables know processors; `sockets` and `numa_nodes` are counts."""

    vendor: str | Unknown
    family: str | Unknown
    model: str | Unknown
    sockets: int | Unknown
    numa_nodes: int | Unknown


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What of the container changes NCCL's choices. `sys_complete`: GPUs and NICs of NVML and verbs are all in /sys.

    Bytes; infinity for no limit. `iommu`: "off", "identity", "translated". `gpudirect`: "dmabuf", "peermem", "none".
    """

    container: str | Unknown  # docker, kubernetes, apptainer, NONE
    sys_complete: bool | Unknown
    shm_bytes: int | Unknown
    memlock_bytes: float | Unknown
    cgroup: str | Unknown
    devices: (
        tuple[str, ...] | Unknown
    )  # /dev/infiniband/*, /dev/nvidia* as types: "uverbs", "nvidia-caps-imex-channels"
    iommu: str | Unknown
    gpudirect: str | Unknown


@dataclass(frozen=True, slots=True)
class SoftwareFacts:
    """Versions as their makers write them; `engine`: the serving engine's name."""

    image_digest: str | Unknown
    cuda_runtime: str | Unknown
    nccl: str | Unknown
    pytorch: str | Unknown
    engine: str | Unknown
    engine_version: str | Unknown


@dataclass(frozen=True, slots=True)
class NcclView:
    """NCCL's own view where a benchmark ran. `graphs`: "PIX/SYS" per graph; `gpus`: (dev, bus id, NVLinks)."""

    gpus: tuple[tuple[int, str, int], ...]
    nets: tuple[tuple[str, float, bool], ...]
    graphs: tuple[str, ...]
    choices: tuple[AlgorithmChoice, ...]
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodePath:
    """Everything read of one node at one time. `sources`: what was asked, and how it ended, for people."""

    host: str | None
    taken_at: float
    driver: str | Unknown
    cuda_driver: str | Unknown
    gpus: tuple[GpuPath, ...] | Unknown
    nvswitches: int | Unknown
    matrices: Mapping[str, Matrix]
    pci: tuple[PciNode, ...] | Unknown
    nics: tuple[NicPath, ...] | Unknown
    cpu: CpuFacts
    container: ContainerFacts
    software: SoftwareFacts
    nccl_settings: Mapping[str, str] | Unknown  # environment and nccl.conf; values of secrets never
    nccl_view: NcclView | None = None
    sources: tuple[tuple[str, str], ...] = ()
    nccl_conf: tuple[str, ...] | None = None  # names of nccl_settings that nccl.conf sets, not the environment
