"""RDMA devices themselves, beside their ports: model, GUID, PCI address and interface, as the same tools tell them.

`ibv_devinfo` (vendor_part_id, node_guid), `ibstat` (CA type, Node GUID), captures of /sys/class/infiniband (hca_type,
node_guid, `mlx5_0 -> ../../devices/.../0000:18:00.0/infiniband/mlx5_0`) and `ibdev2netdev [-v]`. Ports: `rdma`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.evidence import names, rdma
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import address
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import RdmaDevice
from rankmuster.model.plane import Plane

MAX_DEVICES = 4096
MELLANOX = "0x02c9"
"""IEEE vendor id that ibv_devinfo prints for mlx devices, whose hca_type is `MT` and the part number."""

_NAME = r"[A-Za-z][\w.\-]{0,63}"
_SECTION = re.compile(rf"^\s*hca_id:\s*({_NAME})\s*$|^CA '({_NAME})'")
_KEYED = re.compile(r"^\s+(vendor_id|vendor_part_id|node_guid|CA type|Node GUID):\s*(\S{1,64})\s*$")
_SYSFS = re.compile(rf"^(?:/sys/class/infiniband/)?({_NAME})/(hca_type|node_guid) {{0,8}}[:=] {{0,8}}(\S{{1,64}})\s*$")
_LINKED = re.compile(
    rf"(?:^|[ /])({_NAME}) -> \S{{1,500}}/((?:[0-9a-f]{{4,8}}:)[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7])/infiniband/"
    rf"({_NAME})\s*$"
)
_TO_NETDEV = re.compile(
    rf"^(?:([0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]) )?({_NAME}) (?:\((MT\d{{3,6}}).{{0,80}}?\) .{{0,120}})?"
    rf"port \d{{1,3}} .{{0,40}}?==> ({_NAME}) \("
)
_SIGN = re.compile(f"{_LINKED.pattern}|{_TO_NETDEV.pattern}", re.MULTILINE)


@dataclass(slots=True)
class _Device:
    model: str | None = None
    part: str | None = None
    vendor: str | None = None
    guid: str | None = None
    address: str | None = None
    netdev: str | None = None


def guid(said: str) -> str | None:
    """`0x02005e0000000001`, `0200:5e00:0000:0001` -> `0200:5e00:0000:0001`, as /sys writes it."""
    digits = said.lower().removeprefix("0x").replace(":", "")
    if not re.fullmatch(r"[0-9a-f]{16}", digits):
        return None
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def _recognises(blob: Blob) -> bool:
    return rdma.READER.recognises(blob) or _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    ports = rdma.READER.read(blob)
    host = names.host_of(blob.path)
    found: dict[str, _Device] = {}
    current: str | None = None
    known = 0

    def at(name: str) -> _Device:
        return found.setdefault(name, _Device()) if name in found or len(found) < MAX_DEVICES else _Device()

    for _, line in lines(blob.data):
        section = _SECTION.match(line)
        if section:
            current = section.group(1) or section.group(2)
            at(current)
        elif current is not None and (keyed := _KEYED.match(line)):
            _keyed(at(current), *keyed.groups())
        elif sysfs := _SYSFS.match(line):
            _keyed(at(sysfs.group(1)), sysfs.group(2), sysfs.group(3))
        elif (linked := _LINKED.search(line)) and linked.group(1) == linked.group(3):
            at(linked.group(1)).address = address(linked.group(2))
        elif netdev := _TO_NETDEV.match(line):
            place, name, model, interface = netdev.groups()
            device = at(name)
            device.netdev = device.netdev or interface
            device.address = (address(place) if place else None) or device.address
            device.model = model or device.model
        else:
            host = host_of_prompt(line) or host
            continue
        known += 1
    hosts = {getattr(one, "host", None) for one in ports.observations} - {None}
    if host is None and len(hosts) == 1:
        host = next(iter(hosts))
    devices = tuple(
        RdmaDevice(blob.path, host, name, _model(one), one.guid, one.address, one.netdev) for name, one in found.items()
    )
    return Reading((*devices, *ports.observations), ports.problems, known + ports.known)


def _keyed(device: _Device, key: str, value: str) -> None:
    if key in ("hca_type", "CA type"):
        device.model = value
    elif key in ("node_guid", "Node GUID"):
        device.guid = guid(value)
    elif key == "vendor_id":
        device.vendor = value.lower()
    elif key == "vendor_part_id":
        device.part = value


def _model(one: _Device) -> str | None:
    if one.model is not None:
        return one.model
    if one.part is None:
        return None
    return f"MT{one.part}" if one.vendor == MELLANOX and one.part.isdecimal() else f"{one.vendor or '?'}:{one.part}"


PART = Reader("rdma-devices", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
