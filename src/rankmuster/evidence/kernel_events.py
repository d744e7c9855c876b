"""The other lines of the kernel log that bear on communication: PCIe errors, links, hung tasks, machine checks.

Sources: linux (`drivers/pci/pcie/aer.c`, `net/sched/sch_generic.c`, `drivers/net/bonding`, `kernel/hung_task.c`,
`kernel/watchdog.c`), the mlx5 driver, gpud `infiniband/kmsg_matcher.go`, oci-hpc `rdma_link_flapping.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rankmuster.evidence.pci import ADDRESS, bus_id
from rankmuster.model.kernel import KernelEvent, KernelEventKind, KernelOrigin

Kind: TypeAlias = KernelEventKind


@dataclass(frozen=True, slots=True)
class _Rule:
    """`word` must be in the line before `pattern` is tried. Groups: `device`, `pid`, `process`."""

    word: str
    pattern: re.Pattern[str]
    kind: KernelEventKind
    fatal: Callable[[str], bool | None] = lambda _: None


_DEVICE = rf"(?P<device>{ADDRESS})"
_INTERFACE = r"(?P<device>[\w.\-@]{1,32})"


_HARMLESS = re.compile(r"non-?fatal|(?<!un)correct(?:ed|able)")
"""`Corrected`, `Correctable`, `Uncorrected (Non-Fatal)`; `Uncorrected (Fatal)` is not among them."""


def _severity(text: str) -> bool | None:
    lower = text.lower()
    if _HARMLESS.search(lower):
        return False
    return True if "fatal" in lower else None


def _yes(_: str) -> bool:
    return True


_LINK_DRIVER = r"(?:mlx[45]_\w{2,8}|bnxt_en|ice|i40e|ixgbe|igb|igc|ena|gve|irdma|efa|hns3|ionic|tg3|r8169|qede|nfp)"


def _link(way: str) -> re.Pattern[str]:
    """`mlx5_core <address> eth0: Link down`, `bnxt_en <address> eth0: NIC Link is Down`, `... Port: 1 Link DOWN`."""
    of_interface = r"(?:[\w.\-@]{1,32}: )?(?:NIC |Port: \d{1,3} )?"
    return re.compile(rf"{_LINK_DRIVER} {_DEVICE}:? {of_interface}Link(?: is)? (?:{way})\b")


_RULES: tuple[_Rule, ...] = (
    _Rule("PCIe Bus Error", re.compile(rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity="), Kind.AER, _severity),
    _Rule(
        "AER: ",
        re.compile(rf"AER: .{{0,80}}?(?:error|errors|message)s?\b.{{0,40}}? (?:from|received): ?{_DEVICE}"),
        Kind.AER,
        _severity,
    ),
    _Rule("AER: ", re.compile(rf"AER: .{{0,80}}?message received from {_DEVICE}"), Kind.AER, _severity),
    _Rule("can't recover (no error_detected callback)", re.compile(rf"{_DEVICE}: AER: can't recover"), Kind.AER, _yes),
    _Rule("DPC: containment event", re.compile(rf"{_DEVICE}: DPC: containment event"), Kind.AER, _yes),
    _Rule(
        "available PCIe bandwidth",
        re.compile(rf"{_DEVICE}: .{{0,80}}available PCIe bandwidth, limited by"),
        Kind.PCIE_WIDTH,
    ),
    _Rule("Port module event[error]", re.compile(rf"{_DEVICE}:? ?.{{0,80}}Port module event\[error\]"), Kind.NIC_ERROR),
    _Rule(
        "Port module event",
        re.compile(rf"{_DEVICE}:? ?.{{0,80}}Port module event: .{{0,40}}(?:unplugged|error)", re.I),
        Kind.NIC_ERROR,
    ),
    _Rule("health compromised", re.compile(rf"{_DEVICE}:? .{{0,120}}health compromised"), Kind.NIC_ERROR, _yes),
    _Rule(
        "wait_func",
        re.compile(rf"mlx5_core {_DEVICE}:? .{{0,120}}wait_func.{{0,120}}timeout", re.I),
        Kind.NIC_ERROR,
        _yes,
    ),
    _Rule("dump error cqe", re.compile(r"(?P<device>mlx5_\w{1,16}): ?.{0,120}dump error cqe"), Kind.NIC_ERROR),
    _Rule("ink", _link("Down|DOWN|down"), Kind.LINK_DOWN),
    _Rule("ink", _link("Up|UP|up"), Kind.LINK_UP),
    _Rule("NIC Link is Down", re.compile(rf"{_INTERFACE}: NIC Link is Down"), Kind.LINK_DOWN),
    _Rule("NIC Link is Up", re.compile(rf"{_INTERFACE}: NIC Link is Up"), Kind.LINK_UP),
    _Rule(
        "link status",
        re.compile(r"\w{1,32}: \(slave (?P<device>[\w.\-]{1,32})\): link status (?:definitely )?down"),
        Kind.BOND_DOWN,
    ),
    _Rule(
        "link status",
        re.compile(
            r"\w{1,32}: link status (?:definitely )?down for (?:interface|active interface) (?P<device>[\w.\-]{1,32})"
        ),
        Kind.BOND_DOWN,
    ),
    _Rule(
        "without any active interface",
        re.compile(r"(?P<device>\w{1,32}): .{0,40}without any active interface"),
        Kind.BOND_DOWN,
        _yes,
    ),
    _Rule(
        "NETDEV WATCHDOG",
        re.compile(rf"NETDEV WATCHDOG: {_INTERFACE} \([\w\-]{{1,32}}\): transmit queue \d{{1,5}} timed out"),
        Kind.TX_TIMEOUT,
    ),
    _Rule(
        "NETDEV WATCHDOG",
        re.compile(rf"{_INTERFACE}: NETDEV WATCHDOG: CPU: \d{{1,5}}: transmit queue \d{{1,5}} timed out"),
        Kind.TX_TIMEOUT,
    ),
    _Rule("segfault at", re.compile(r"(?P<process>[^\s\[]{1,64})\[(?P<pid>\d{1,10})\]: segfault at "), Kind.SEGFAULT),
    _Rule(
        "traps: ",
        re.compile(r"traps: (?P<process>[^\s\[]{1,64})\[(?P<pid>\d{1,10})\] (?:general protection|trap )"),
        Kind.SEGFAULT,
    ),
    _Rule(
        "blocked for more than",
        re.compile(r"task (?P<process>\S{1,64}):(?P<pid>\d{1,10}) blocked for more than \d{1,9} seconds"),
        Kind.HUNG_TASK,
    ),
    _Rule(
        "soft lockup",
        re.compile(r"soft lockup - CPU#\d{1,5} stuck for \d{1,9}s! \[(?P<process>[^\]]{1,64}):(?P<pid>\d{1,10})\]"),
        Kind.LOCKUP,
    ),
    _Rule("hard LOCKUP", re.compile(r"hard LOCKUP on cpu"), Kind.LOCKUP, _yes),
    _Rule("detected stall", re.compile(r"rcu\w{0,16}:? (?:INFO: )?.{0,32}(?:self-)?detected stall"), Kind.LOCKUP),
    _Rule(
        "[Hardware Error]: event severity",
        re.compile(r"\[Hardware Error\]: event severity: \w"),
        Kind.MACHINE_CHECK,
        _severity,
    ),
    _Rule(
        "Machine check",
        re.compile(r"(?i)machine check events? logged|Kernel panic - not syncing.{0,40}Machine check"),
        Kind.MACHINE_CHECK,
        _severity,
    ),
    _Rule("EDAC MC", re.compile(r"EDAC MC\d{1,4}: \d{1,9} (?:CE|UE)\b"), Kind.MACHINE_CHECK, lambda t: " UE " in t),
    _Rule("Kernel panic - not syncing", re.compile(r"Kernel panic - not syncing"), Kind.PANIC, _yes),
    _Rule(
        "DMAR: ",
        re.compile(rf"DMAR: \[.{{0,40}}?\] Request device \[{_DEVICE}\] .{{0,40}}fault addr"),
        Kind.IOMMU_FAULT,
    ),
    _Rule(
        "IO_PAGE_FAULT",
        re.compile(rf"(?:nvidia |mlx5_core )?{_DEVICE}:? (?:AMD-Vi: Event logged \[IO_PAGE_FAULT|domain=)"),
        Kind.IOMMU_FAULT,
    ),
    _Rule(
        "knvlink",
        re.compile(r"NVRM: knvlink\w{1,80}: .{0,160}(?:Failed to update Rx Detect|postRxDetLinkMask failed)"),
        Kind.NVLINK_TRAINING,
    ),
    _Rule("nv_get_p2p_free_callback", re.compile(r"nv_get_p2p_free_callback:\d{1,6} ERROR"), Kind.PEERMEM),
    _Rule(
        "RmInitAdapter failed",
        re.compile(rf"NVRM: GPU {_DEVICE}: RmInitAdapter failed"),
        Kind.GPU_INIT,
        _yes,
    ),
    _Rule(
        "GSP RPC error prints",
        re.compile(rf"Rate limiting GSP RPC error prints for GPU at PCI:{_DEVICE}"),
        Kind.GSP_STALL,
    ),
)

MAX_TEXT = 1024
"""printk cuts its lines at about this length; what is longer is no kernel line."""

_LINK_WORDS = tuple(f"ink {way}" for way in ("Down", "down", "DOWN", "Up", "up", "UP", "is "))
WORDS = (*dict.fromkeys(r.word for r in _RULES if r.word != "ink"), *_LINK_WORDS)
"""One of these is in every line that `event` understands."""


def event(origin: KernelOrigin, text: str) -> KernelEvent | None:
    """What one line says by itself, None for the rest. PCI addresses are normalised, interface names kept."""
    text = text[:MAX_TEXT]
    for rule in _RULES:
        if rule.word not in text:
            continue
        match = rule.pattern.search(text)
        if match is None:
            continue
        said = match.groupdict()
        device = said.get("device")
        pid = said.get("pid")
        return KernelEvent(
            origin,
            rule.kind,
            (bus_id(device) or device) if device else None,
            int(pid) if pid else None,
            said.get("process"),
            rule.fatal(text),
            text,
        )
    return None
