"""The log of NVIDIA's fabric manager and of its sibling IMEX: `[Feb 27 2025 15:10:02] [ERROR] [tid 12727] text`.

Source: gpud `components/accelerator/nvidia/fabric-manager`. Most of it is INFO on multicast teams; only errors, and
the lines that mark a start, are kept.
"""

from __future__ import annotations

import re

from rankmuster.evidence.pci import ADDRESS
from rankmuster.evidence.xid import sxid_of_fabric_manager
from rankmuster.model.kernel import KernelOrigin, ServiceEvent, ServiceEventKind, SXid

FABRIC_MANAGER = "nvidia-fabricmanager"
IMEX = "nvidia-imex"

LINE = re.compile(r"^\[([A-Z][a-z]{2} {1,2}\d{1,2} \d{4} \d\d:\d\d:\d\d)\] \[([A-Z]{4,9})\] \[tid \d{1,10}\] ?")
_SWITCH = re.compile(
    rf"detected NVSwitch (fatal|non-fatal) error (\d{{1,9}}) on .{{0,80}}?pci bus id ({ADDRESS})"
    r"(?:.{0,80}?\bport (\d{1,4}))?"
)
_BAD_LEVELS = frozenset({"ERROR", "FATAL", "CRITICAL"})
_STARTS = ("is running with the following configuration options", "log initialized at")


def service_of(data: bytes) -> str:
    """Both programs write the same shape; IMEX names itself and knows no multicast teams."""
    return IMEX if b"IMEX" in data and b"multicast" not in data and b"NVSwitch" not in data else FABRIC_MANAGER


def event(origin: KernelOrigin, service: str, level: str | None, text: str) -> ServiceEvent | SXid | None:
    """What one line says. `level`: None where the journal took it off; then only known complaints count."""
    switch = _SWITCH.search(text)
    if switch:
        word, code, address, port = switch.groups()
        link = int(port) if port else None
        return sxid_of_fabric_manager(origin, int(code), address, link, word == "fatal", text)
    if level in _BAD_LEVELS or (level is None and _complains(text)):
        return ServiceEvent(origin, service, ServiceEventKind.ERROR, text)
    if any(words in text for words in _STARTS):
        return ServiceEvent(origin, service, ServiceEventKind.STARTED, text)
    return None


def _complains(text: str) -> bool:
    lower = text.lower()
    return "failed to" in lower or "aborting" in lower or "don't match with" in lower or "[nv_warn" in lower
