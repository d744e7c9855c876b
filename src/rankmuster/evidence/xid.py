"""Xid and SXid lines of the NVIDIA drivers in every form they have had, and the line that ties an address to a UUID.

Source: NVIDIA/open-gpu-kernel-modules 595.45.04 (`kernel_rc.c`, `osinit.c`, `gpu.c`, `common_nvswitch.h`,
`intr_nvswitch.h`) and the test inputs of gpud and imbue-ai/cluster-health for older drivers.
"""

from __future__ import annotations

import re

from rankmuster.evidence.pci import ADDRESS, bus_id
from rankmuster.evidence.xid_secondary import mark
from rankmuster.evidence.xid_table import NVLINK5, RECOVERY_ACTIONS, UNKNOWN_XID, XIDS, decode_nvlink5, sxid_effect
from rankmuster.model.kernel import GpuAfter, GpuUuid, KernelOrigin, SXid, Xid

FALLEN_OFF_BUS = 79
MEANS_LOST_WITHIN_LINES = 4
"""`The NVIDIA GPU <address>` / `(PCI ID ...)` / `fallen off the bus` are one message of three lines."""

WORDS = ("Xid (", "fallen off the bus", "NVRM: GPU at PCI:", "NVRM: The NVIDIA GPU")
"""One of these is in every line that `XidScan.take` understands."""

_XID = re.compile(r"(?<!S)Xid \(([^()]{1,160})\): ?(\d{1,9})(?:, *| +|$)(.{0,4000})")
_SXID = re.compile(r"SXid \(([^()]{1,160})\): ?(\d{1,9})(?:, *| +|$)(.{0,4000})")
_ADDRESS = re.compile(ADDRESS)
_MIG = re.compile(r"GPU-[GC]?I:\d{1,3}(?: GPU-CI:\d{1,3})?")
_PID = re.compile(r"pid=('?<unknown>'?|\d{1,10})(?:, *|$)")
_NAME = re.compile(r"name=([^,]{0,64})(?:, *|$)")
_CAUSED_BY = re.compile(r"caused by previous Xid (\d{1,9})\b")
_UNIT = re.compile(
    r"([A-Z][A-Z0-9_/]{1,40})\s+(Fatal|Non-?fatal)\s+XC\d\s+i\d{1,4}\s+Link\s+(-?\d{1,3})\s+\(([0-9a-fA-Fx ]+)"
)
_LINK = re.compile(r"\b[Ll]ink (\d{1,3})\b")
_RST = re.compile(r"\bRST: Yes")
_RECOVERY = re.compile(r" to (?:0x[0-9a-fA-F]{1,8} )?\(([^()]{1,64})\)")
_UUID = re.compile(rf"NVRM: GPU at (?:PCI:)?({ADDRESS}): (GPU-[0-9a-fA-F\-]{{8,64}})")
_LOST_HERE = re.compile(rf"NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?({ADDRESS})\b")
_SEVERITY = {"fatal": True, "non-fatal": False, "nonfatal": False, "correctable": False}
_MAX_WORD = 0xFFFFFFFF


class XidScan:
    """Takes lines in order, hands back what they mean together; the secondary flags need the neighbours."""

    def __init__(self) -> None:
        self._xids: list[Xid] = []
        self._others: list[SXid | GpuUuid] = []
        self._bare: dict[tuple[str, int], SXid] = {}
        self._named: tuple[int, str] | None = None
        self._lost: set[str] = set()
        self.unreadable: list[KernelOrigin] = []

    def take(self, origin: KernelOrigin, text: str) -> bool:
        """Whether the line was an Xid, an SXid, a loss or a UUID line. `text`: without the log's own prefix."""
        if "Xid (" in text:
            known = self._sxid(origin, text) if "SXid (" in text else self._xid(origin, text)
            if not known and ("NVRM" in text or "nvswitch" in text):
                self.unreadable.append(origin)
            return known
        uuid = _UUID.search(text)
        if uuid:
            address = bus_id(uuid.group(1))
            if address is not None:
                self._others.append(GpuUuid(origin, address, uuid.group(2)))
            return True
        return self._fallen(origin, text)

    def finish(self) -> list[Xid | SXid | GpuUuid]:
        """Everything seen, in the log's order; an SXid of which only data lines are left is kept with no severity."""
        seen = {(s.bus_id, s.code) for s in self._others if isinstance(s, SXid)}
        rest = [s for key, s in self._bare.items() if key not in seen]
        return sorted([*mark(self._xids), *self._others, *rest], key=lambda o: o.origin.line)

    def _xid(self, origin: KernelOrigin, text: str) -> bool:
        match = _XID.search(text)
        if match is None:
            return False
        inside, number, rest = match.groups()
        code = int(number)
        pid = process = None
        pid_part = _PID.match(rest)
        if pid_part:
            rest = rest[pid_part.end() :]
            pid = int(pid_part.group(1)) if pid_part.group(1).isdigit() else None
        name_part = _NAME.match(rest)
        if name_part:
            rest = rest[name_part.end() :]
            process = None if name_part.group(1) in ("", "<unknown>", "'<unknown>'") else name_part.group(1)
        caused = _CAUSED_BY.search(rest)
        mig = _MIG.search(inside)
        address = _address(inside)
        entry = XIDS.get(code, UNKNOWN_XID)
        after, fatal, lead, recovery = entry.after, None, None, None
        link = _LINK.search(rest)
        number_of_link = int(link.group(1)) if link else None
        unit = _UNIT.search(rest) if code in NVLINK5 else None
        if unit:
            fatal = unit.group(2) == "Fatal"
            number_of_link = int(unit.group(3)) if int(unit.group(3)) >= 0 else None
            words = [_word(w) for w in unit.group(4).split()] + [0, 0]
            decoded = decode_nvlink5(code, unit.group(1), fatal=fatal, intrinfo=words[0], status=words[1])
            after, lead = decoded.after, decoded.lead
        elif code == 154:
            action = _RECOVERY.search(rest)
            recovery = action.group(1) if action else None
            after = RECOVERY_ACTIONS.get((recovery or "").lower(), GpuAfter.UNKNOWN)
        elif code in (94, 95) and _RST.search(rest):
            after = GpuAfter.RESET  # `RST: Yes` and `D-RST: Yes`: the line itself asks for it
        if code == FALLEN_OFF_BUS:
            self._lost.add(address)
        self._xids.append(
            Xid(
                origin,
                code,
                address,
                pid,
                process,
                rest.strip(),
                entry.meaning,
                after,
                secondary=False,
                caused_by=int(caused.group(1)) if caused else None,
                fatal=fatal,
                recovery_action=recovery,
                mig=mig.group(0) if mig else None,
                link=number_of_link,
                lead=lead,
            )
        )
        return True

    def _sxid(self, origin: KernelOrigin, text: str) -> bool:
        match = _SXID.search(text)
        if match is None:
            return False
        inside, number, rest = match.groups()
        code, address = int(number), _address(inside)
        fatal = _SEVERITY.get(rest.partition(",")[0].strip().lower())
        link = _LINK.search(rest)
        value = SXid(
            origin,
            code,
            address,
            int(link.group(1)) if link else None,
            fatal,
            sxid_effect(code, fatal),
            rest.strip(),
            first="(First)" in rest,
        )
        if rest.startswith(("Severity ", "Data {")):
            self._bare.setdefault((address, code), value)
        else:
            self._others.append(value)
        return True

    def _fallen(self, origin: KernelOrigin, text: str) -> bool:
        """A loss that is told without an Xid, unless the Xid stands before it."""
        if "NVRM" not in text:
            return False
        here = _LOST_HERE.search(text)
        address = bus_id(here.group(1)) if here else None
        if "fallen off the bus" not in text:
            if here is None or "The NVIDIA GPU" not in text or address is None:
                return False
            self._named = (origin.line, address)
            return True
        if address is None and self._named is not None and origin.line - self._named[0] <= MEANS_LOST_WITHIN_LINES:
            address = self._named[1]
        if address is None:
            return False
        if address not in self._lost:
            self._lost.add(address)
            entry = XIDS[FALLEN_OFF_BUS]
            self._xids.append(
                Xid(origin, FALLEN_OFF_BUS, address, None, None, text, entry.meaning, entry.after, secondary=False)
            )
        return True


def sxid_of_fabric_manager(
    origin: KernelOrigin, code: int, address: str, link: int | None, fatal: bool, text: str
) -> SXid:
    """The same error as the fabric manager's log tells it."""
    return SXid(origin, code, bus_id(address) or address.lower(), link, fatal, sxid_effect(code, fatal), text)


def _address(inside: str) -> str:
    """What stands in the parentheses may carry MIG words behind the address, and no `PCI:` in old drivers."""
    match = _ADDRESS.search(inside.removeprefix("PCI:"))
    return (bus_id(match.group(0)) if match else None) or inside.removeprefix("PCI:").strip().lower()


def _word(text: str) -> int:
    try:
        value = int(text, 16) if len(text) <= 18 else 0
    except ValueError:
        return 0
    return value & _MAX_WORD
