"""The processor as NCCL's tables know it (vendor, family, model choose the bandwidth between sockets), and NUMA nodes.

Source: NCCL src/graph/topo.cc (ncclTopoGetInterCpuBw) and xml.cc, which ask cpuid for the same numbers.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rankmuster.collect.machine import Machine
from rankmuster.collect.node.sys_files import names, read_text
from rankmuster.model.node_path import CpuFacts
from rankmuster.model.unknown import Unknown

MAX_CPUS = 8192
MAX_BYTES = 1 << 16
"""Of /proc/cpuinfo: the first processor stands within 4 KiB."""

ARM_IMPLEMENTERS = {"0x41": "ARM", "0x4e": "NVIDIA", "0x61": "Apple", "0xc0": "Ampere"}
"""MIDR_EL1's implementer as /proc/cpuinfo shows it (linux arch/arm64/include/asm/cputype.h)."""

_KEYED = re.compile(r"^([\w ]{1,40}?)\s*:[ \t]?(.*)$", re.MULTILINE)


def read_cpu(machine: Machine) -> CpuFacts:
    """Each value by itself; Unknown with the file that does not tell it."""
    info: dict[str, str] = {}
    for key, value in _KEYED.findall(read_text(machine.proc / "cpuinfo", MAX_BYTES) or ""):
        info.setdefault(key, value.strip())
    if "CPU implementer" in info:
        vendor: str | None = ARM_IMPLEMENTERS.get(info["CPU implementer"], info["CPU implementer"])
        family, model = info.get("CPU architecture"), info.get("CPU part")
    else:
        vendor, family, model = info.get("vendor_id"), info.get("cpu family"), info.get("model")
    place = machine.proc / "cpuinfo"
    return CpuFacts(
        vendor=vendor or Unknown(f"{place} names no vendor"),
        family=family or Unknown(f"{place} names no family"),
        model=model or Unknown(f"{place} names no model"),
        sockets=_sockets(machine.sys / "devices/system/cpu"),
        numa_nodes=numa_nodes(machine.sys),
    )


def numa_nodes(sys: Path) -> int | Unknown:
    """How many the kernel shows; a kernel without NUMA has no such folder and one node."""
    folder = sys / "devices/system/node"
    count = sum(1 for name in names(folder) if re.fullmatch(r"node\d{1,5}", name))
    if count:
        return count
    if os.path.isdir(sys / "devices/system/cpu") and not os.path.exists(folder):
        return 1
    return Unknown(f"{folder} shows no NUMA node")


def _sockets(folder: Path) -> int | Unknown:
    packages = set()
    for name in names(folder, MAX_CPUS):
        if re.fullmatch(r"cpu\d{1,5}", name):
            said = read_text(folder / name / "topology/physical_package_id", 32)
            if said is not None:
                packages.add(said)
    return len(packages) if packages else Unknown(f"{folder}/cpu*/topology/physical_package_id cannot be read")
