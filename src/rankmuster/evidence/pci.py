"""PCI addresses: the kernel, NVML and sysfs write the same device in three ways."""

from __future__ import annotations

import re

ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
"""`0000:9b:00` (Xid), `00000000:9B:00.0` (NVML), `0000:9b:00.0` (sysfs), `9b:00.0` (IOMMU lines), `c3:00`."""

_PARTS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")


def bus_id(text: str) -> str | None:
    """`dddd:bb:dd` in lower case, without function; None where `text` is no PCI address. No domain means domain 0."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        return None
    domain = int(match.group(1), 16) if match.group(1) else 0
    return f"{domain:04x}:{match.group(2)}:{match.group(3)}".lower()


def address(text: str) -> str | None:
    """`dddd:bb:dd.f` in lower case, as /sys names a device; None where `text` is no PCI address.

    No domain means domain 0, no function means function 0.
    """
    device = bus_id(text)
    if device is None:
        return None
    said = text.strip()
    return f"{device}.{said[-1] if said[-2] == '.' else '0'}"
