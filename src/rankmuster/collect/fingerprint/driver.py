"""NVIDIA's kernel driver and switches, and what it means when NVML is not there while GPUs are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.collect.fingerprint.gpus import Told
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.sys_files import names, read_text
from rankmuster.model.fingerprint import NONE
from rankmuster.model.node_path import GpuPath, PciNode
from rankmuster.model.unknown import Unknown

NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
"""PCI classes of VGA and 3D controllers; NVIDIA's audio functions have others."""
SWITCH = "0x0680"
"""Class "bridge, other": NVSwitches."""

_RELEASE = re.compile(r"Kernel Module[^\n]{0,80}? (\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")

Gpus = tuple[GpuPath, ...] | Unknown


@dataclass(frozen=True, slots=True)
class Driver:
    """`release`: of the kernel module, None where it does not say; `files`: NVIDIA's device files."""

    release: str | None = None
    files: tuple[str, ...] = ()

    def checked(self, gpus: Gpus, pci: tuple[PciNode, ...] | Unknown) -> Gpus:
        """No NVML means no GPUs only where nothing else shows one."""
        if gpus != ():
            return gpus
        cards = 0 if isinstance(pci, Unknown) else sum(_is(node, *DISPLAY) for node in pci)
        if cards:
            return Unknown(f"NVML's library is not to be found here, and {cards} NVIDIA GPU(s) are on PCI")
        if self.release or self.files:
            seen = f"the kernel module {self.release}" if self.release else f"/dev/{self.files[0]}"
            return Unknown(f"NVML's library is not to be found here, and {seen} is there")
        return gpus

    def version(self, told: Told, gpus: Gpus) -> str | Unknown:
        """580.159.04; NONE where there is no driver."""
        found = told.driver.get("Driver Version") or self.release
        return found or _absent(told, gpus, "driver")

    def cuda(self, told: Told, gpus: Gpus) -> str | Unknown:
        """The newest CUDA that the driver can: 13.0."""
        return told.driver.get("CUDA Version") or _absent(told, gpus, "CUDA version of the driver")

    def nvswitches(self, pci: tuple[PciNode, ...] | Unknown, gpus: Gpus) -> int | Unknown:
        """Those that are visible on PCI: none in a virtual machine or a rack, whose links lead to switches all the
        same."""
        if isinstance(pci, Unknown):
            return 0 if gpus == () else pci
        return sum(_is(node, SWITCH) for node in pci)


def read_driver(machine: Machine) -> Driver:
    """From /proc/driver/nvidia and /dev."""
    match = _RELEASE.search(read_text(machine.proc / "driver/nvidia/version", 4096) or "")
    files = tuple(name for name in names(machine.dev) if re.fullmatch(r"nvidia\d{1,3}", name))
    return Driver(match.group(1) if match else None, files)


def _is(node: PciNode, *classes: str) -> bool:
    return node.vendor == NVIDIA and node.class_code.startswith(classes)


def _absent(told: Told, gpus: Gpus, what: str) -> str | Unknown:
    if isinstance(gpus, Unknown):
        return Unknown(f"the {what} is not known: {gpus.reason}")
    return NONE if told.absent else Unknown(f"NVML does not tell the {what}")
