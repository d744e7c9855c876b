"""What the checks look at besides the fingerprint: captured or live, the same values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.admission.dcgm import DcgmReport
from rankmuster.model.kernel import KernelEvent, ServiceEvent, SXid, Xid
from rankmuster.model.topology import RdmaPort
from rankmuster.model.unknown import Unknown


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """One GPU while the benchmark ran, at its best: links train down when idle, clocks are only held back under load.

    `pcie_generation`, `pcie_width`: the highest seen. `clock_reasons`: all bits of NVML's clock event reasons seen
    while the GPU computed, None where not said. `foreign_pids`: processes on the GPU that are not the benchmark's.
    """

    pcie_generation: int | None = None
    pcie_width: int | None = None
    clock_reasons: int | None = None
    foreign_pids: tuple[int, ...] = ()
    samples: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts of one node at one time. `Unknown`: could not be read, with the reason; it is no pass.

    `kernel`: since boot, or as far back as the log goes (`kernel_whole` False: its oldest lines are gone). `ports`:
    with their counters; `ports_before`: the same before the benchmark, to tell old errors from new. `load`: by GPU
    index; empty where no benchmark was watched. `carrier_changes`: per Ethernet interface since boot. `nccl_log`:
    observations of NCCL's log of a start over nodes. `dcgm`: None where it was not asked for.
    """

    kernel: tuple[Xid | SXid | KernelEvent, ...] | Unknown
    services: tuple[ServiceEvent, ...] | Unknown
    ports: tuple[RdmaPort, ...] | Unknown
    kernel_whole: bool = True
    carrier_changes: Mapping[str, int] = field(default_factory=dict)
    ports_before: tuple[RdmaPort, ...] = ()
    load: Mapping[int, UnderLoad] = field(default_factory=dict)
    nccl_log: tuple[object, ...] = ()
    dcgm: DcgmReport | Unknown | None = None
