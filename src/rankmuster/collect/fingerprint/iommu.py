"""The IOMMU, and how GPU memory reaches a NIC: what decides whether peer-to-peer traffic goes straight."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from rankmuster.collect.machine import Machine
from rankmuster.collect.node.sys_files import names, read_text
from rankmuster.model.unknown import Unknown

MAX_GROUPS = 4096
DMABUF_KERNEL = (5, 12)
"""First Linux whose RDMA devices register memory of others by DMA-BUF (ib_umem_dmabuf_get)."""

TRANSLATED = ("DMA", "DMA-FQ")
"""Types of iommu_groups with translation; `identity` is passthrough (Documentation/ABI, sysfs-kernel-iommu_groups)."""


def read_iommu(sys: Path, addresses: Iterable[str]) -> str | Unknown:
    """ "off", "identity" or "translated" for the devices at `addresses`, or for all where none of them has a group."""
    if not os.path.isdir(sys / "class"):
        return Unknown(f"{sys / 'class'} is not there: /sys is not mounted, or masked by the container's runtime")
    groups = sys / "kernel/iommu_groups"
    if not names(sys / "class/iommu", 1) and not names(groups, 1):
        return "off"
    kinds = {kind for one in addresses if (kind := read_text(sys / "bus/pci/devices" / one / "iommu_group/type", 32))}
    if not kinds:
        kinds = {kind for name in names(groups, MAX_GROUPS) if (kind := read_text(groups / name / "type", 32))}
    if kinds & set(TRANSLATED):
        return "translated"
    if kinds:
        return "identity" if kinds == {"identity"} else Unknown(f"{groups} has types {', '.join(sorted(kinds))}")
    if not names(groups, 1):
        return "off"  # a unit is there and no device is behind it
    return Unknown(f"{groups}: no group says its type")


def read_gpudirect(machine: Machine, *, gpus: bool | Unknown) -> str | Unknown:
    """ "dmabuf", "peermem" or "none", in NCCL's order of preference. `gpus`: whether there are any.

    DMA-BUF needs the open kernel module and Linux 5.12 (NVIDIA GPUDirect RDMA guide); whether each NIC takes it is
    asked of the NIC by NCCL itself.
    """
    modules = machine.sys / "module"
    version = read_text(machine.proc / "driver/nvidia/version", 4096)
    if version is None:
        if not isinstance(gpus, Unknown) and not gpus:
            return "none"
        return Unknown(f"{machine.proc / 'driver/nvidia/version'} is not there: the kind of kernel module is not known")
    release = re.match(r"(\d{1,3})\.(\d{1,3})", read_text(machine.proc / "sys/kernel/osrelease", 128) or "")
    if "Open Kernel Module" in version:
        if release is None:
            return Unknown(f"{machine.proc / 'sys/kernel/osrelease'} does not tell the kernel's release")
        if (int(release.group(1)), int(release.group(2))) >= DMABUF_KERNEL:
            return "dmabuf"
    if os.path.isdir(modules / "nvidia_peermem") or names(machine.sys / "kernel/mm/memory_peers", 8):
        return "peermem"
    if not os.path.isdir(modules):
        return Unknown(f"{modules} is not there: it is not known whether nvidia_peermem is loaded")
    return "none"
