"""An Xid that was told by number, as the kernel log's reader would have it."""

from __future__ import annotations

from collections import deque

from rankmuster.evidence.pci import bus_id
from rankmuster.evidence.xid import XidScan
from rankmuster.evidence.xid_secondary import NEIGHBOUR_SECONDS, mark
from rankmuster.model.kernel import KernelOrigin, Xid
from rankmuster.model.stamp import unix

MOST_REMEMBERED = 64
"""Xids that a new one is compared with, to tell what merely follows; a failing GPU writes some dozen in a minute."""

MOST_CODE = 1 << 16
"""Codes are below 200 so far; larger numbers are damage."""


class Xids:
    """Of one node. `source`: who tells them, as findings will name it ("nvml-xid-events")."""

    def __init__(self, source: str, host: str | None) -> None:
        self._source = source
        self._host = host
        self._recent: deque[tuple[float, Xid]] = deque(maxlen=MOST_REMEMBERED)
        self._count = 0

    def told(self, code: int, bus: str, at: float, how: str) -> Xid | None:
        """The Xid at `at` (unix seconds) of the GPU at a PCI address; None for what can be none. `how`: its text."""
        address = bus_id(bus)
        if address is None or not 0 < code < MOST_CODE:
            return None
        self._count += 1
        origin = KernelOrigin(self._source, self._count, self._host, unix(at))
        scan = XidScan()
        scan.take(origin, f"NVRM: Xid (PCI:{address}): {code}, {how}")
        found = next((one for one in scan.finish() if isinstance(one, Xid)), None)
        if found is None:
            return None
        self._recent.append((at, found))
        return mark([one for when, one in self._recent if at - when <= NEIGHBOUR_SECONDS])[-1]
