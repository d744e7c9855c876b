"""`lspci -vv` (or -vvv, -nn, -D) -> `CapturedTree`: devices, links, NUMA nodes, ACS, and from the bridges' bus numbers
which one each device hangs on.

Without root the tool prints `Capabilities: <access denied>`: then links and ACS are unknown, not absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import address
from rankmuster.evidence.pci_link import NO_LINK, generation, width
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import CapturedTree
from rankmuster.model.node_path import Link, PciNode
from rankmuster.model.plane import Plane
from rankmuster.model.unknown import Unknown

MAX_DEVICES = 4096
BRIDGE = "0x0604"

CLASSES = {
    "PCI bridge": "0x060400",
    "Host bridge": "0x060000",
    "3D controller": "0x030200",
    "VGA compatible controller": "0x030000",
    "Infiniband controller": "0x020700",
    "Network controller": "0x028000",
    "Ethernet controller": "0x020000",
    "Bridge": "0x068000",
    "Non-Volatile memory controller": "0x010802",
}
"""The words of pci.ids for what a communication path is made of; others are told by -nn alone."""

VENDORS = {
    "NVIDIA": "0x10de",
    "Mellanox": "0x15b3",
    "Intel": "0x8086",
    "Advanced Micro Devices": "0x1022",
    "Broadcom": "0x14e4",
    "PLX": "0x10b5",
    "Amazon": "0x1d0f",
    "ASPEED": "0x1a03",
    "Red Hat": "0x1af4",
    "Microsemi": "0x11f8",
}

_DEVICE = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([A-Z0-9][\w \-/.()]{1,60}?)(?: \[([0-9a-f]{4})\])?: "
    r"(.{1,300})$"
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_CAN = re.compile(r"^\s+LnkCap:.{0,60}?Speed (\d[\d.]*GT/s).{0,40}?Width (x\d+)")
_IS = re.compile(r"^\s+LnkSta:.{0,20}?Speed (\d[\d.]*GT/s).{0,40}?Width (x\d+)")
_BUSES = re.compile(r"^\s+Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_NUMA = re.compile(r"^\s+NUMA node: (-?\d{1,5})\s*$")
_ACS_WORDS = ("SrcValid+", "ReqRedir+", "CmpltRedir+", "UpstreamFwd+")
_SIGN = re.compile(
    rf"^(?:[0-9a-f]{{4,8}}:)?[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7] (?:{'|'.join(map(re.escape, CLASSES))})"
    r"(?: \[[0-9a-f]{4}\])?: \S",
    re.MULTILINE,
)


@dataclass(slots=True)
class _Device:
    at: str
    code: str
    vendor: str
    device: str
    numa: int | None = None
    can: tuple[str, str] | None = None
    now: tuple[str, str] | None = None
    buses: tuple[str, str] | None = None
    acs: bool | None = None
    denied: bool = False
    detailed: bool = False
    express: bool = field(default=False)


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    devices: list[_Device] = []
    known = 0
    for _, line in lines(blob.data):
        first = _DEVICE.match(line)
        if first:
            known += 1
            if len(devices) < MAX_DEVICES:
                devices.append(_begun(first))
        elif devices and line[:1] in " \t":
            known += _detail(devices[-1], line)
        else:
            host = host_of_prompt(line) or host
    if not devices:
        return Reading((), (), 0)
    bridges = {f"{one.at[:-7]}{one.buses[1]}": one.at for one in devices if one.buses is not None}
    placed = bool(bridges) or not any(one.code.startswith(BRIDGE) for one in devices)
    nodes = tuple(_node(one, bridges, devices, blob.path) for one in devices)
    return Reading((CapturedTree(blob.path, host, nodes, placed),), (), known)


def _begun(first: re.Match[str]) -> _Device:
    at, kind, code, name = first.groups()
    ids = _IDS.findall(name)
    vendor = (
        f"0x{ids[-1][0]}" if ids else next((number for word, number in VENDORS.items() if name.startswith(word)), "")
    )
    known = f"0x{code}00" if code else CLASSES.get(kind, "")
    if code and CLASSES.get(kind, "").startswith(f"0x{code}"):
        known = CLASSES[kind]
    return _Device(address(at) or at, known, vendor, f"0x{ids[-1][1]}" if ids else "")


def _detail(device: _Device, line: str) -> bool:
    device.detailed = True
    buses, numa, can, now = _BUSES.match(line), _NUMA.match(line), _CAN.match(line), _IS.match(line)
    if buses:
        device.buses = buses.group(1), buses.group(2)
    elif numa:
        device.numa = int(numa.group(1))
    elif can and device.can is None:
        device.can = can.group(1), can.group(2)
    elif now and device.now is None:
        device.now = now.group(1), now.group(2)
    elif "ACSCtl:" in line:
        device.acs = any(word in line for word in _ACS_WORDS)
    elif "<access denied>" in line:
        device.denied = True
    elif "] Express" in line:
        device.express = True
    else:
        return False
    return True


def _node(one: _Device, bridges: dict[str, str], devices: list[_Device], source: str) -> PciNode:
    parent = bridges.get(one.at[:-5])
    root, above, steps = one.at[:-5], parent, 0
    while above is not None and steps < len(devices):
        root, above, steps = above[:-5], bridges.get(above[:-5]), steps + 1
    return PciNode(
        address=one.at,
        root=f"pci{root}",
        parent=parent if parent != one.at else None,
        class_code=one.code,
        vendor=one.vendor,
        device=one.device,
        numa=one.numa if one.numa is not None else Unknown(f"{source} names no NUMA node of {one.at}"),
        link=_link(one, source),
        acs_redirects=_acs(one, source) if one.code.startswith(BRIDGE) else False,
    )


def _link(one: _Device, source: str) -> Link:
    if one.detailed and not one.denied and not one.express and one.can is None:
        return NO_LINK
    why = f"{source}, {one.at}: " + ("<access denied>, run lspci as root;" if one.denied else "lspci -vv;")
    now, can = one.now or (None, None), one.can or (None, None)
    return Link(
        generation(now[0], f"{why} LnkSta's speed"),
        width(now[1], f"{why} LnkSta's width"),
        generation(can[0], f"{why} LnkCap's speed"),
        width(can[1], f"{why} LnkCap's width"),
    )


def _acs(one: _Device, source: str) -> bool | Unknown:
    if one.acs is not None:
        return one.acs
    if one.denied or not one.detailed:
        return Unknown(f"{source}: lspci shows no capabilities of {one.at}; run lspci -vvv as root")
    return False


PART = Reader("lspci", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
