"""Which Xids of this boot refuse a node, which are only said, and why: NVIDIA's action and what is left of the GPU.

The rule: what the catalogue leaves with a reset, a reboot, no NVLink or a lost GPU refuses until the next boot; what
one program did to itself does not. Vendors differ (Azure refuses on 63 and 92, which NVIDIA says to ignore; AWS reboots
on 168); where they do, NVIDIA's catalogue (2025-10) decides, and the rows that it leaves open are named below.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from rankmuster.model.kernel import GpuAfter, Xid


class XidVerdict(str, Enum):
    """What an Xid of this boot means for the node."""

    REFUSE = "refuse"
    SAY = "say"  # worth a warning
    NOTHING = "nothing"


REFUSED_AFTER = frozenset({GpuAfter.RESET, GpuAfter.LOST, GpuAfter.NO_NVLINK, GpuAfter.UNUSABLE})

OPEN_AND_REFUSED = frozenset({48, 54, 61, 151, 167, 168, 169, 171, 172, 173, 175})
"""What is left of the GPU is not said by the catalogue. 48, 171, 172: uncorrectable memory error without the companion
that says it was contained. 54: a power cable. 61, 167, 169, 173, 175: parts of the GPU that do not come back. 151:
restart the VM. 168: less memory than it should have (AWS reboots)."""

NO_FAULT = frozenset({*range(162, 166)})
"""Power smoothing: information."""

NVLINK5 = frozenset(range(144, 151))
"""Where a line of these was not decoded, its own word Fatal decides."""


RECOVERY = 154
"""The driver's verdict: what it asks for from now on. The last line of a GPU holds, and its own text decides."""

_NO_RECOVERY = "none"


def standing(xids: Sequence[Xid]) -> list[Xid]:
    """Without the verdicts of the driver that a later one of the same GPU replaced."""
    last = {xid.bus_id: xid for xid in xids if xid.code == RECOVERY}
    return [xid for xid in xids if xid.code != RECOVERY or xid is last[xid.bus_id]]


def verdict(xid: Xid) -> XidVerdict:
    """What one line means for the admission. A secondary one (45 after anything, 43 after 13) refuses nobody: the line
    that it follows does. A verdict of the driver refuses whatever stands before it, and whatever it asks for."""
    if xid.code == RECOVERY:
        if xid.recovery_action is None:
            return XidVerdict.SAY  # cut
        none = xid.recovery_action.strip().lower() == _NO_RECOVERY
        return XidVerdict.NOTHING if none else XidVerdict.REFUSE
    if xid.secondary or xid.code in NO_FAULT:
        return XidVerdict.NOTHING
    if xid.after in REFUSED_AFTER or (xid.after is GpuAfter.UNKNOWN and xid.code in OPEN_AND_REFUSED):
        return XidVerdict.REFUSE
    if xid.code in NVLINK5 and xid.after is GpuAfter.UNKNOWN and xid.fatal is not False:
        return XidVerdict.REFUSE
    return XidVerdict.SAY
