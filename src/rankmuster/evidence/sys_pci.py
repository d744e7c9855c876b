"""A capture of /sys/bus/pci/devices -> `CapturedTree`: one line a device, or one line a file.

/sys/bus/pci/devices/0000:9a:00.0 class=0x030200 vendor=0x10de dev=0x2335 numa=-1 speed=32.0 GT/s PCIe width=16
  path=/sys/devices/pci0000:97/0000:97:01.0/0000:9a:00.0   (on the same line)
/sys/bus/pci/devices/0000:9a:00.0/vendor:0x10de            (`grep . /sys/bus/pci/devices/*/vendor`)
/sys/devices/pci0000:97/0000:97:01.0/0000:9a:00.0/vendor: 0x10de
/sys/bus/pci/devices/0000:9a:00.0 -> ../../../devices/pci0000:97/0000:97:01.0/0000:9a:00.0      (`ls -l`)
"""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci_link import NO_LINK, generation, width
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import CapturedTree
from rankmuster.model.node_path import Link, PciNode
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.unknown import Unknown

MAX_DEVICES = 4096
MAX_FACTS = 24
"""Facts of one device that are kept; the tree needs nine."""
MAX_DEPTH = 64
BRIDGE = "0x0604"

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_ONE_LINE = re.compile(rf"^\s*/sys/bus/pci/devices/({_ADDRESS})\s+(\w+=.*)$")
_ONE_FILE = re.compile(
    rf"^\s*(/sys/(?:bus/pci/devices|devices/[\w:./\-]{{1,400}}?)/({_ADDRESS}))/([a-z]\w{{0,39}})\s?[:=](.*)$"
)
_LINKED = re.compile(rf"(?:^|[ /])({_ADDRESS}) -> (\S{{1,600}}/({_ADDRESS}))\s*$")
_PAIR = re.compile(r"(\w{1,40})=(.*?)(?=\s\w{1,40}=|$)")
_DEVICE = re.compile(_ADDRESS)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_SIGN = re.compile(
    rf"^\s*/sys/bus/pci/devices/{_ADDRESS}[ /]|"
    rf"^\s*/sys/devices/[\w:./\-]{{1,400}}/{_ADDRESS}/\w{{1,40}}\s?[:=]|{_ADDRESS} -> [./]{{3,40}}devices/",
    re.MULTILINE,
)

_ALIASES = {
    "dev": "device",
    "numa": "numa_node",
    "speed": "current_link_speed",
    "width": "current_link_width",
    "max_speed": "max_link_speed",
    "max_width": "max_link_width",
}
"""Short names that people give the files in their own loops."""


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    facts: dict[str, dict[str, str]] = {}
    known = 0
    for _, line in lines(blob.data):
        host = host_of_prompt(line) or host
        found = _of_line(line)
        if found is None:
            continue
        known += 1
        address, said = found
        entry = facts.setdefault(address, {}) if address in facts or len(facts) < MAX_DEVICES else {}
        for key, value in said.items():
            if len(entry) < MAX_FACTS:
                entry[_ALIASES.get(key, key)] = value.strip()[:600]
    nodes = [_node(address, said, blob.path) for address, said in facts.items()]
    problems: tuple[Problem, ...] = ()
    cut = [address for address, said in facts.items() if not {"class", "vendor"} <= said.keys()]
    if cut:
        message = f"{len(cut)} PCI devices lack class or vendor ({', '.join(cut[:4])}): the capture is cut or partial"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    kept = tuple(node for node in nodes if node.address not in cut)
    placed = bool(kept) and all("path" in facts[node.address] for node in kept)
    return Reading((CapturedTree(blob.path, host, kept, placed),) if kept else (), problems, known)


def _of_line(line: str) -> tuple[str, dict[str, str]] | None:
    one = _ONE_LINE.match(line)
    if one:
        return one.group(1), dict(_PAIR.findall(one.group(2)))
    file = _ONE_FILE.match(line)
    if file:
        place, address, name, value = file.groups()
        return address, {name: value} | ({"path": place} if place.startswith("/sys/devices/") else {})
    linked = _LINKED.search(line)
    if linked and linked.group(1) == linked.group(3):
        return linked.group(1), {"path": linked.group(2)}
    return None


def _node(address: str, said: dict[str, str], source: str) -> PciNode:
    parts = said.get("path", "").split("/")
    above = [part for part in parts if _DEVICE.fullmatch(part)][:-1][-MAX_DEPTH:]
    root = next((part for part in parts if _ROOT.fullmatch(part)), f"pci{address[:-5]}")
    numa = said.get("numa_node", "")
    code = said.get("class", "")
    return PciNode(
        address=address,
        root=root,
        parent=above[-1] if above else None,
        class_code=code,
        vendor=said.get("vendor", ""),
        device=said.get("device", ""),
        numa=int(numa) if re.fullmatch(r"-?\d{1,5}", numa) else Unknown(f"{source} does not say it"),
        link=_link(said, source),
        acs_redirects=Unknown(f"{source} is a capture without configuration spaces; `lspci -vvv` as root tells it")
        if code.startswith(BRIDGE)
        else False,
    )


def _link(said: dict[str, str], source: str) -> Link:
    keys = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    if "current_link_speed" in said and not any(said.get(key) for key in keys):
        return NO_LINK  # asked, and the kernel has no such file
    where = f"{source}, {{}}"
    return Link(
        generation(said.get(keys[0]), where.format(keys[0])),
        width(said.get(keys[1]), where.format(keys[1])),
        generation(said.get(keys[2]), where.format(keys[2])),
        width(said.get(keys[3]), where.format(keys[3])),
    )


PART = Reader("sys-pci", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
