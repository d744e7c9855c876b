"""The order in which NCCL numbers NICs: `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB ...`. Pure.

Two rules, by release. Up to 2.29.3 (src/transport/net_ib.cc, ncclIbInitDevices): the order of ibv_get_device_list,
which is that of the kernel's device index (rdma-core libibverbs/ibdev_nl.c and init.c put each device before the last,
twice), so that a reboot or a reloaded driver may change it. Since 2.29.7 (src/transport/net_ib/init.cc,
ncclIbCompareDevs) then sorted by PCI address, unless NCCL_IB_DEVICE_PCI_ORDER=0; devices without one come last. Ports
that are not active and those that NCCL_IB_HCA leaves out get no number; here they keep their place.
Without an RDMA device NCCL uses the interfaces of NET/Socket as getifaddrs lists them: by interface index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankmuster.model.node_path import NicPath

PCI_ORDER = "NCCL_IB_DEVICE_PCI_ORDER"
SORTS_BY_ADDRESS = (2, 29, 7)
"""First release whose library knows `PCI_ORDER`: the name is among the strings of the packages nvidia-nccl-cu12 2.29.7,
2.30.3 and 2.30.4, and not of 2.29.2 and 2.29.3."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`by_address`: RDMA devices are sorted by PCI address. `why`: for people."""

    by_address: bool
    why: str


def rule(nccl: str | None, settings: Mapping[str, str]) -> Rule:
    """`nccl`: the release in use ("2.28.9"), None where it is not known: then today's rule is taken."""
    if settings.get(PCI_ORDER, "").strip() == "0":
        return Rule(False, f"{PCI_ORDER}=0: in the order of the kernel's RDMA device index")
    found = re.match(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?", nccl or "")
    if found is None:
        return Rule(True, "by PCI address, as NCCL does since 2.29.7; its release is not known here")
    if tuple(int(part or 0) for part in found.groups()) < SORTS_BY_ADDRESS:
        return Rule(False, f"NCCL {nccl}: in the order of the kernel's RDMA device index")
    return Rule(True, f"NCCL {nccl}: by PCI address")


def ordered(nics: Sequence[NicPath], chosen: Rule) -> tuple[NicPath, ...]:
    """`nics` come in the order of the device index; RDMA devices first, as NCCL prefers them."""
    rdma = [nic for nic in nics if nic.rdma]
    if chosen.by_address:
        rdma.sort(key=lambda nic: (not isinstance(nic.address, str), _place(nic)))
    return (*rdma, *(nic for nic in nics if not nic.rdma))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key by which mlx5_10 comes after mlx5_9."""
    return tuple((int(digits), "") if digits else (-1, text) for digits, text in re.findall(r"(\d{1,12})|(\D+)", name))


def _place(nic: NicPath) -> int:
    """NCCL's pciPathToInt64: the digits of the address as one number."""
    digits = re.sub(r"[^0-9a-f]", "", nic.address) if isinstance(nic.address, str) else ""
    return int(digits, 16) if digits else 0
