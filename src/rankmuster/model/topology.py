"""The topology plane as far as captured text tells it: nvidia-smi, ibv_devinfo, ibstat, GID tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopologyMatrix:
    """`nvidia-smi topo -m` (kind "m") or `-p2p r|w|n|a|p` (kind that letter).

    `cells[row, column]`: the word. Kind "mp" is `topo -mp`, which shows PCIe words where NVLinks are; "p2p" is a
    peer-to-peer table whose letter the text does not say.
    """

    source: str
    host: str | None
    kind: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], str]
    nics: Mapping[str, str]  # NIC0 -> mlx5_0
    cpu_affinity: Mapping[str, str]
    numa_affinity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NvlinkStatus:
    """`nvidia-smi nvlink -s`: per GPU and link the speed in GB/s, None for inactive. `note`: its complaint, if any."""

    source: str
    host: str | None
    gpu: str  # "0", or a bus id where only that is said
    uuid: str | None
    links: tuple[float | None, ...]
    note: str | None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU of `nvidia-smi -q`, `-L` or `--query-gpu`; `facts` keeps what was said, keys as printed.

    Keys of nested sections are joined with " / " ("PCI / GPU Link Info / Link Width / Current"; for XML the tags);
    a key said again gets " #2", " #3". "error": what the tool said instead of facts ("GPU is lost").
    """

    source: str
    host: str | None
    index: int | None
    bus_id: str | None  # normalised dddd:bb:dd
    uuid: str | None
    name: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PciAccessControl:
    """`ACSCtl:` of `lspci -vvv`. `redirects`: peer-to-peer traffic is sent up to the root, or checked, by this port."""

    source: str
    line: int
    host: str | None
    device: str | None  # address as lspci writes it, None where the text has lost it
    redirects: bool


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of `ibv_devinfo`, `ibstat` or /sys captures. `gids`: (index, gid, type such as "RoCE v2")."""

    source: str
    host: str | None
    device: str
    port: int
    state: str | None  # PORT_ACTIVE, PORT_DOWN, ...
    physical_state: str | None
    link_layer: str | None  # InfiniBand, Ethernet
    rate_gbps: float | None
    mtu: int | None
    max_mtu: int | None
    firmware: str | None
    gids: tuple[tuple[int, str, str | None], ...]
    counters: Mapping[str, int] = field(default_factory=dict)  # from /sys captures, since the driver was loaded
