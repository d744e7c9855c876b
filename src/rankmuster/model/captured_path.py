"""Parts of a node's path that captured text tells beside nvidia-smi and the RDMA tools: /sys, lspci, lscpu, df."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.model.node_path import CpuFacts, NicPath, PciNode
from rankmuster.model.unknown import Unknown


@dataclass(frozen=True, slots=True)
class CapturedTree:
    """PCI devices of a capture of /sys or of lspci. `placed`: the text says which bridge each hangs on."""

    source: str
    host: str | None
    nodes: tuple[PciNode, ...]
    placed: bool


@dataclass(frozen=True, slots=True)
class CapturedInterfaces:
    """Network interfaces of a capture of /sys/class/net, in its order."""

    source: str
    host: str | None
    nics: tuple[NicPath, ...]


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """What tools say of an RDMA device itself, beside its ports. `address`: dddd:bb:dd.f; None where not said."""

    source: str
    host: str | None
    name: str
    model: str | None
    guid: str | None
    address: str | None
    netdev: str | None


@dataclass(frozen=True, slots=True)
class NvlinkRemotes:
    """`nvidia-smi nvlink -p` of one GPU. `remotes`: link -> address at its other end, in lower case as printed."""

    source: str
    host: str | None
    gpu: int
    uuid: str
    remotes: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class CapturedCpu:
    """lscpu, or `numactl -H`, which tells the NUMA nodes alone."""

    source: str
    host: str | None
    cpu: CpuFacts


@dataclass(frozen=True, slots=True)
class CapturedSpace:
    """`df /dev/shm`. Bytes; rounded where the tool was asked for readable sizes (-h)."""

    source: str
    host: str | None
    size_bytes: int | Unknown
