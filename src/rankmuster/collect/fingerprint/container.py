"""What of a container changes NCCL's choices: /sys, /dev/shm, memlock, limits, device files, IOMMU, GPUDirect."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from rankmuster.collect.fingerprint.iommu import read_gpudirect, read_iommu
from rankmuster.collect.fingerprint.whose import Whose
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import cgroups, proc_tasks
from rankmuster.collect.node.host_facts import shared_memory
from rankmuster.collect.node.sys_files import names
from rankmuster.evidence.pci import bus_id
from rankmuster.model.node_path import ContainerFacts, GpuPath, NicPath, PciNode
from rankmuster.model.unknown import Unknown

_DEVICE = re.compile(r"nvidia|gdrdrv|infiniband$")
_LIMITS = {"memory_max": "memory", "pids_max": "processes"}


def read_container(
    machine: Machine,
    of: Whose,
    kind: str | Unknown,
    gpus: tuple[GpuPath, ...] | Unknown,
    pci: tuple[PciNode, ...] | Unknown,
    nics: tuple[NicPath, ...] | Unknown,
) -> ContainerFacts:
    """Around the process `of`; `kind`: of container. What other parts found tells which devices matter."""
    who, root = of.who, of.root
    dev = machine.dev if who == "self" else root / "dev"
    listed = () if isinstance(gpus, Unknown) else gpus
    cards = () if isinstance(nics, Unknown) else nics
    addresses = [gpu.bus_id for gpu in listed if isinstance(gpu.bus_id, str)]
    addresses += [nic.address for nic in cards if nic.rdma and isinstance(nic.address, str)]
    space = shared_memory(root)
    limit = proc_tasks.limits(machine.proc / who).get("memlock")
    limits = machine.proc / who / "limits"
    return ContainerFacts(
        container=kind,
        sys_complete=_sys_complete(machine, gpus, pci, nics),
        shm_bytes=space["size_bytes"] if space is not None else Unknown(f"{root / 'dev/shm'} cannot be looked at"),
        memlock_bytes=_limit(limit) if limit is not None else Unknown(f"{limits} says no limit on locked memory"),
        cgroup=_cgroup(machine, who),
        devices=device_kinds(dev),
        iommu=read_iommu(machine.sys, addresses),
        gpudirect=read_gpudirect(machine, gpus=gpus if isinstance(gpus, Unknown) else bool(gpus)),
    )


def _sys_complete(
    machine: Machine,
    gpus: tuple[GpuPath, ...] | Unknown,
    pci: tuple[PciNode, ...] | Unknown,
    nics: tuple[NicPath, ...] | Unknown,
) -> bool | Unknown:
    """NCCL walks from /sys/class/pci_bus/<bus>/../../<device>; a GPU or NIC without that hangs on no one knows what."""
    if isinstance(pci, Unknown):
        if not isinstance(gpus, Unknown) and not gpus and not _uverbs(machine):
            return Unknown(f"there is no GPU and no RDMA device that /sys could lack, and {pci.reason}")
        return False
    if isinstance(gpus, Unknown):
        return Unknown(f"which GPUs there should be is not known: {gpus.reason}")
    seen = {bus_id(node.address) for node in pci}
    for gpu in gpus:
        if isinstance(gpu.bus_id, Unknown):
            return Unknown(f"where GPU {gpu.index} sits is not known: {gpu.bus_id.reason}")
        if bus_id(gpu.bus_id) not in seen or not os.path.exists(machine.sys / "class/pci_bus" / gpu.bus_id[:-5]):
            return False
    if isinstance(nics, Unknown):
        return Unknown(f"which NICs there are is not known: {nics.reason}")
    rdma = [nic for nic in nics if nic.rdma]
    if _uverbs(machine) > len(rdma):
        return False
    return not any(isinstance(nic.address, Unknown) for nic in rdma)


def _uverbs(machine: Machine) -> int:
    return sum(name.startswith("uverbs") for name in names(machine.dev / "infiniband"))


def _limit(value: int | str) -> float:
    return math.inf if value == "unlimited" else float(value)


def _cgroup(machine: Machine, who: str) -> str | Unknown:
    """`version 2, memory 68719476736, processes none`: the strictest of each; no path, which names the container."""
    folder = machine.proc / who
    where = cgroups.paths(folder)
    if not where:
        return Unknown(f"{folder / 'cgroup'} cannot be read or names no group")
    version = 1 if "memory" in where or "pids" in where else 2
    said = [f"version {version}"]
    levels = cgroups.levels(machine.sys / "fs/cgroup", folder)
    for key, word in _LIMITS.items():
        numbers = [value for level in levels if isinstance(value := level.get(key), int)]
        said.append(f"{word} {min(numbers) if numbers else 'none'}")
    return ", ".join(said)


def device_kinds(dev: Path) -> tuple[str, ...] | Unknown:
    """Kinds of the device files that communication needs, without their numbers; () for none."""
    if not os.path.isdir(dev):
        return Unknown(f"{dev} cannot be looked at")
    kinds = {_kind(name) for name in names(dev) if _DEVICE.match(name) and name != "infiniband"}
    kinds |= {_kind(name) for name in names(dev / "infiniband")}
    kinds -= {"nvidia-caps-imex-channels"} if not names(dev / "nvidia-caps-imex-channels", 1) else set()
    return tuple(sorted(kinds))


def _kind(name: str) -> str:
    return re.sub(r"\d+$", "", name)[:64]
