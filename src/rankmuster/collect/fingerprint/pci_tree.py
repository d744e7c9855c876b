"""The PCI tree of /sys: every device with the bridge above it, its link, its NUMA node, and ACS of the bridges.

NCCL finds paths the same way: by the real path of a device below /sys/devices, `pci0000:15/0000:15:01.0/0000:16:00.0`
(src/graph/xml.cc, ncclTopoGetXmlFromSys). In a container with a masked /sys there is nothing to be found.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.sys_files import names, read_bytes, read_number, read_text
from rankmuster.evidence.pci_config import EXTENDED_SIZE, acs_redirects
from rankmuster.evidence.pci_link import NO_LINK, generation, least, width
from rankmuster.model.node_path import Link, PciNode
from rankmuster.model.unknown import Unknown

MAX_DEVICES = 4096
"""Devices of one machine: a host with eight GPUs has about 200, one with virtual functions some hundreds more."""

LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")

BRIDGE = "0x0604"
"""Class of PCI-to-PCI bridges: root ports, and both kinds of ports of switches."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


def placed(real: str) -> tuple[str, str | None] | None:
    """(root, parent) of the last device in a real path below /sys/devices; None where it has none."""
    parts = real.split("/")
    root = next((part for part in parts if _ROOT.fullmatch(part)), None)
    devices = [part for part in parts if _ADDRESS.fullmatch(part)]
    if not devices:
        return None
    return root or f"pci{devices[0][:7]}", devices[-2] if len(devices) > 1 else None


def address_in(real: str) -> str | None:
    """The last PCI device in a real path: a virtio network interface hangs on one."""
    found = [part for part in real.split("/") if _ADDRESS.fullmatch(part)]
    return found[-1] if found else None


def read_tree(sys: Path, deadline: Deadline) -> tuple[PciNode, ...] | Unknown:
    """All devices by address; Unknown where /sys does not show them, or not all were read by the deadline."""
    folder = sys / "bus/pci/devices"
    if not os.path.isdir(folder):
        return Unknown(f"{folder} is not there: /sys is not mounted, masked by the container's runtime, or has no PCI")
    found: dict[str, PciNode] = {}
    for name in names(folder, MAX_DEVICES):
        if deadline.passed:
            return Unknown(f"the time ended after {len(found)} devices of {folder}: a device answers slowly")
        node = _node(folder / name, name)
        if node is not None:
            found[name] = node
    return tuple(_with_both_ends(node, found) for node in found.values())


def _node(path: Path, name: str) -> PciNode | None:
    if not _ADDRESS.fullmatch(name):
        return None
    root, parent = placed(os.path.realpath(path)) or (f"pci{name[:7]}", None)
    numa = read_number(path / "numa_node")
    code = read_text(path / "class", 16) or ""
    return PciNode(
        address=name,
        root=root,
        parent=parent,
        class_code=code,
        vendor=read_text(path / "vendor", 16) or "",
        device=read_text(path / "device", 16) or "",
        numa=numa if numa is not None else Unknown(f"{path / 'numa_node'} is not there"),
        link=_link(path),
        acs_redirects=_acs(path, name) if code.startswith(BRIDGE) else False,
    )


def _link(path: Path) -> Link:
    """Linux shows these files for PCI Express devices alone (drivers/pci/pci-sysfs.c, pcie_dev_attrs)."""
    said = {name: read_text(path / name, 64) for name in LINK_FILES}
    if not any(os.path.exists(path / name) for name in LINK_FILES):
        return NO_LINK
    speed, lanes, speed_max, lanes_max = (
        (said[name], f"{path}/{name}")  # what it says, and where
        for name in LINK_FILES
    )
    return Link(generation(*speed), width(*lanes), generation(*speed_max), width(*lanes_max))


def _acs(path: Path, name: str) -> bool | Unknown:
    file = path / "config"
    try:
        size = file.stat().st_size
    except OSError as error:
        return Unknown(f"{file} cannot be read ({error.strerror})")
    config = read_bytes(file, EXTENDED_SIZE)
    if config is None:
        return Unknown(f"{file} cannot be opened or read")
    return acs_redirects(config, size, name)


def _with_both_ends(node: PciNode, tree: dict[str, PciNode]) -> PciNode:
    """A device cannot do more than the port that it hangs on."""
    above = tree.get(node.parent) if node.parent is not None else None
    if above is None:
        return node
    link = Link(
        node.link.generation,
        node.link.width,
        _both(node.link.generation_max, above.link.generation_max),
        _both(node.link.width_max, above.link.width_max),
    )
    return PciNode(
        *(node.address, node.root, node.parent, node.class_code, node.vendor, node.device, node.numa),
        link,
        node.acs_redirects,
    )


def _both(own: int | Unknown, above: int | Unknown) -> int | Unknown:
    return own if isinstance(own, Unknown) else least((own, above))
