"""The kernel's RDMA devices in the order of their index, which is the order of ibv_get_device_list.

Asked over netlink as libibverbs does (rdma-core libibverbs/ibdev_nl.c; linux include/uapi/rdma/rdma_netlink.h): only
devices of one's own network namespace are told, without privileges. Where that is refused (gVisor, old kernels), or
for another machine's captured /sys, the number of a device's uverbs file stands for it: both are handed out when a
driver registers its device.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from pathlib import Path

from rankmuster.collect.node.sys_files import names, read_text
from rankmuster.evidence.nic_order import natural

NETLINK_RDMA = 20
_GET_DEVICES = (5 << 10) + 1  # RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET)
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_DONE, _ERROR = 3, 2
_INDEX, _NAME = 1, 2  # RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME

ANSWER_SECONDS = 1.0
"""For one part of the answer; the kernel has it in memory and gives it within microseconds."""
MAX_PARTS = 256
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_PIECE = 65_536


def by_index(sys: Path) -> list[str]:
    """Names of the devices below `sys`/class/infiniband, those first whose index is known."""
    listed = names(sys / "class/infiniband")
    known = _asked() if os.path.realpath(sys) == "/sys" and listed else {}
    if not known:
        known = _numbered(sys)
    return sorted(listed, key=lambda name: (known.get(name, 1 << 31), natural(name)))


def _numbered(sys: Path) -> dict[str, int]:
    """Device -> number of its uverbs file."""
    found: dict[str, int] = {}
    folder = sys / "class/infiniband_verbs"
    for name in names(folder):
        number = re.fullmatch(r"uverbs(\d{1,6})", name)
        device = read_text(folder / name / "ibdev", 64) if number else None
        if number and device:
            found[device] = int(number.group(1))
    return found


def _asked() -> dict[str, int]:
    """Device -> index, from the kernel; empty where it does not say."""
    found: dict[str, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as link:
            link.settimeout(ANSWER_SECONDS)
            link.send(_HEADER.pack(_HEADER.size, _GET_DEVICES, _DUMP, 1, 0))
            for _ in range(MAX_PARTS):
                if parse(link.recv(_PIECE), found):
                    break
    except (OSError, AttributeError):
        return {}
    return found


def parse(data: bytes, found: dict[str, int]) -> bool:
    """One part of the answer into `found`; True where the answer ends. Never raises on any bytes."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind in (_DONE, _ERROR) or length < _HEADER.size or at + length > len(data):
            return True
        index, name = _attributes(data[at + _HEADER.size : at + length])
        if index is not None and name:
            found[name] = index
        at += (length + 3) & ~3
    return False


def _attributes(data: bytes) -> tuple[int | None, str | None]:
    index: int | None = None
    name: str | None = None
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        value = data[at + _ATTRIBUTE.size : at + length]
        if kind & 0x3FFF == _INDEX and len(value) >= 4:
            index = int.from_bytes(value[:4], "little" if struct.pack("=H", 1) == b"\1\0" else "big")
        elif kind & 0x3FFF == _NAME:
            name = value.split(b"\0")[0].decode("utf-8", errors="replace")
        at += (length + 3) & ~3
    return index, name
