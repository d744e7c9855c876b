"""What the node offers to a process: shared memory, RDMA devices, GPU Direct, the IOMMU, kernel and driver."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from rankmuster.collect.files_below import names_in
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.sys_files import names, read_text

_DRIVER = re.compile(r"Kernel Module[^\n]{0,80}? (\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")


def kernel(machine: Machine) -> dict[str, object]:
    """Release, uptime, and a hash that changes with each boot (the boot id itself is also the host's name to NCCL)."""
    found: dict[str, object] = {"release": read_text(machine.proc / "sys/kernel/osrelease", 128)}
    boot = read_text(machine.proc / "sys/kernel/random/boot_id", 64)
    if boot:
        found["boot"] = hashlib.sha256(boot.encode()).hexdigest()[:16]
    uptime = (read_text(machine.proc / "uptime", 64) or "").split()
    if uptime and re.fullmatch(r"\d{1,12}(?:\.\d{1,3})?", uptime[0]):
        found["uptime_seconds"] = float(uptime[0])
    pressure = {
        kind: match.group(1)
        for kind in ("cpu", "memory", "io")
        if (match := re.search(r"some avg10=([\d.]{1,8})", read_text(machine.proc / "pressure" / kind) or ""))
    }
    if pressure:
        found["pressure_percent"] = {kind: float(value) for kind, value in pressure.items()}
    return {name: value for name, value in found.items() if value is not None}


def devices(machine: Machine) -> dict[str, object]:
    """Drivers and devices that the communication path is made of, as far as they can be seen from here."""
    found: dict[str, object] = {}
    match = _DRIVER.search(read_text(machine.proc / "driver/nvidia/version") or "")
    if match:
        found["nvidia_driver"] = match.group(1)
    modules = machine.sys / "module"
    if (modules / "nvidia").is_dir() or match:
        peermem = (modules / "nvidia_peermem").is_dir() or bool(names(machine.sys / "kernel/mm/memory_peers", 8))
        found["nvidia_peermem"] = peermem
    found["sys_mounted"] = (machine.sys / "class").is_dir()
    found["rdma_devices_in_sys"] = len(names(machine.sys / "class/infiniband"))
    found["uverbs"] = sum(name.startswith("uverbs") for name in names(machine.dev / "infiniband"))
    found["gpu_device_files"] = sum(bool(re.fullmatch(r"nvidia\d{1,3}", name)) for name in names(machine.dev))
    found["imex_channels"] = len(names(machine.dev / "nvidia-caps-imex-channels"))
    iommus = names(machine.sys / "class/iommu")
    if iommus:
        found["iommus"] = len(iommus)
        kinds: dict[str, int] = {}
        for group in names(machine.sys / "kernel/iommu_groups"):
            kind = read_text(machine.sys / "kernel/iommu_groups" / group / "type", 32) or "unknown"
            if re.fullmatch(r"[\w\-]{1,32}", kind):
                kinds[kind] = kinds.get(kind, 0) + 1
        found["iommu_group_types"] = kinds
    return found


def shared_memory(root: Path) -> dict[str, int] | None:
    """`/dev/shm` below a process's root: `device` tells which are one. None where there is none, or it may not be seen.

    Opened part by part and without following links: below another process's root a link is that process's word.
    """
    with contextlib.ExitStack() as stack:
        try:
            at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, at)
            for part in ("dev", "shm"):
                at = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                stack.callback(os.close, at)
            size, device = os.fstatvfs(at), os.fstat(at).st_dev
        except OSError:
            return None
    return {
        "device": device,
        "size_bytes": size.f_frsize * size.f_blocks,
        "free_bytes": size.f_frsize * size.f_bavail,
    }


def uverbs_of(root: Path) -> int:
    """RDMA device files that a process can open: what is in /sys proves nothing of that."""
    try:
        return sum(name.startswith("uverbs") for name in names_in(root, "/dev/infiniband"))
    except OSError:
        return 0
