"""RDMA ports as text shows them: `ibv_devinfo [-v]`, `ibstat`, `show_gids`, and captures of /sys/class/infiniband.

Support scripts write several of these into one file, so one reader knows all four and joins what they say of a port.
A line belongs to the form whose shape it has; the indented ones to the device and port named last.
"""

from __future__ import annotations

import re

from rankmuster.evidence import names, rdma_ports
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.rdma_ports import Port, PortTable
from rankmuster.evidence.smi_text import prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

COUNTER_MAX = 2**64
"""Counters of /sys are at most 64 bits wide; a longer number is damage."""

_DEVICE = r"[A-Za-z][\w.\-]{0,63}"
_HCA = re.compile(rf"^\s*hca_id:\s*({_DEVICE})\s*$")
_CA = re.compile(rf"^CA '({_DEVICE})'")
_PORT = re.compile(r"^\s+port:\s*(\d{1,3})\s*$|^\s+Port (\d{1,3}):\s*$")
_KEYED = re.compile(r"^\s+([A-Za-z][\w ]{0,40}):(.{0,512})")
_GID_LINE = re.compile(r"^\s+GID\[\s*(\d{1,5})\]:\s*([0-9a-fA-F:.]{2,64})(?:, *(.{1,32}?))?\s*$")
_SHOW_GIDS = re.compile(
    rf"^({_DEVICE})\s+(\d{{1,3}})\s+(\d{{1,5}})\s+([0-9a-fA-F:]{{6,64}})\s+(?:\d[\d.]{{6,14}}\s+)?(v[12])\b"
)
_SYSFS = re.compile(
    rf"^(?:/sys/class/infiniband/)?({_DEVICE})/(?:ports/(\d{{1,3}})/([\w/]{{1,80}})|(fw_ver|board_id|hca_type|node_desc|node_guid))"
    r" {0,8}[:=](.{0,256})"
)
_SIGN = re.compile(
    rf"^\s*hca_id:\s*{_DEVICE}|^CA '{_DEVICE}'|^(?:/sys/class/infiniband/)?{_DEVICE}/ports/\d{{1,3}}/\w|"
    rf"^DEV\s+PORT\s+INDEX\s+GID|^{_DEVICE}\s+\d{{1,3}}\s+\d{{1,5}}\s+[0-9a-fA-F]{{4}}(?::[0-9a-fA-F]{{4}}){{7}}\s",
    re.MULTILINE,
)
_NUMBER = re.compile(r"\d{1,9}")
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,2})?) Gbps")
_WIDTH = re.compile(r"(\d{1,2})X")


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    table = PortTable()
    host = names.host_of(blob.path)
    device: str | None = None
    port: Port | None = None
    lonely: list[str] = []
    known = 0
    for _, line in lines(blob.data):
        named = _HCA.match(line) or _CA.match(line)
        if named:
            device, port = named.group(1), None
            lonely.append(device)
        elif device is not None and (numbered := _PORT.match(line)):
            port = table.at(device, int(numbered.group(1) or numbered.group(2)))
        elif device is not None and line[:1] in " \t" and _indented(line, device, port, table):
            pass
        elif not (_show_gids(line, table) or _sysfs(line, table)):
            host = prompt_host(line) or host
            continue
        known += 1
    missing = [d for d in dict.fromkeys(lonely) if d not in table.devices]
    problems: tuple[Problem, ...] = ()
    if missing:
        message = (
            f"{', '.join(missing[:8])}: the text ends or is damaged before the device's ports; other devices were read"
        )
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(table.done(blob.path, host), problems, known)


def _indented(line: str, device: str, port: Port | None, table: PortTable) -> bool:
    """A line below `hca_id:` or `CA`: of the device until a port is named, of the port from then on."""
    gid = _GID_LINE.match(line)
    if gid:
        if port is not None:
            port.gid(int(gid.group(1)), gid.group(2), rdma_ports.gid_type(gid.group(3) or ""))
        return True
    keyed = _KEYED.match(line)
    if keyed is None:
        return False
    key, value = keyed.group(1).lower().replace(" ", "_"), keyed.group(2).strip()
    if key in ("fw_ver", "firmware_version"):
        table.firmware(device, value)
    elif port is not None:
        _of_port(port, key, value)
    return True


def _of_port(port: Port, key: str, value: str) -> None:
    """One fact in the words of ibv_devinfo, ibstat or /sys (`state`, `phys_state`, `rate`, ...)."""
    if not value:
        return
    if key == "state":
        port.state = rdma_ports.state(value)
    elif key in ("phys_state", "physical_state"):
        port.physical_state = rdma_ports.physical_state(value)
    elif key == "link_layer":
        port.link_layer = value
    elif key == "rate":
        port.rate_gbps = rdma_ports.rate(value)
    elif key in ("active_mtu", "max_mtu") and (number := _NUMBER.match(value)):
        if key == "active_mtu":
            port.mtu = int(number.group(0))
        else:
            port.max_mtu = int(number.group(0))
    elif key == "active_speed" and (speed := _SPEED.match(value)):
        port.lane_gbps = float(speed.group(1))
    elif key == "active_width" and (width := _WIDTH.match(value)):
        port.lanes = int(width.group(1))


def _show_gids(line: str, table: PortTable) -> bool:
    row = _SHOW_GIDS.match(line)
    if row is None:
        return line.startswith("DEV") and "GID" in line
    device, port, index, gid, version = row.groups()
    table.at(device, int(port)).gid(int(index), gid, rdma_ports.gid_type(version))
    return True


def _sysfs(line: str, table: PortTable) -> bool:
    """`mlx5_0/ports/1/state: 4: ACTIVE`, as `grep -r . /sys/class/infiniband` and collectors write it."""
    if "/" not in line:
        return False
    row = _SYSFS.match(line)
    if row is None:
        return False
    device, number, file, of_device, said = row.groups()
    value = said.strip()
    if of_device is not None:
        if of_device == "fw_ver":
            table.firmware(device, value)
        return True
    port = table.at(device, int(number))
    folder, _, name = file.rpartition("/")
    if folder == "" or folder.isdigit():
        _of_port(port, name, value)
    elif folder in ("counters", "hw_counters"):
        if value.isascii() and value.isdigit() and len(value) <= 20 and int(value) < COUNTER_MAX:
            port.counters[name] = int(value)
    elif folder == "gids" and name.isdecimal() and len(name) <= 5:
        port.gid(int(name), value, None)
    elif folder == "gid_attrs/types" and name.isdecimal() and len(name) <= 5:
        port.gid(int(name), None, rdma_ports.gid_type(value))
    return True


READER = Reader("rdma-ports", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
