"""`lspci -vvv`: whether PCIe ports send peer-to-peer traffic up to the root (Access Control Services).

NCCL's troubleshooting guide: `SrcValid+` in `ACSCtl` means that ACS is on; peer-to-peer between GPUs, and between GPUs
and adapters, is then slow, or hangs behind an IOMMU.
"""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import holds
from rankmuster.evidence.text import lines
from rankmuster.model.plane import Plane
from rankmuster.model.topology import PciAccessControl

MARK = "ACSCtl:"
MAX_PORTS = 4096
"""Ports of one text; a host with eight GPUs has about a hundred."""

_DEVICE = re.compile(r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ")
_ON = ("SrcValid+", "ReqRedir+", "CmpltRedir+", "UpstreamFwd+")


def read(blob: Blob) -> Reading:
    """One PciAccessControl a port that has the capability."""
    host = names.host_of(blob.path)
    device: str | None = None
    found: list[object] = []
    for number, line in lines(blob.data):
        start = _DEVICE.match(line)
        if start:
            device = start.group(1)
        elif MARK in line and len(found) < MAX_PORTS:
            found.append(PciAccessControl(blob.path, number, host, device, any(word in line for word in _ON)))
    return Reading(tuple(found), (), len(found))


def _recognises(blob: Blob) -> bool:
    return holds(blob, (MARK,))


READER = Reader("lspci-acs", Plane.TOPOLOGY, ReaderKind.LINES, _recognises, read)
