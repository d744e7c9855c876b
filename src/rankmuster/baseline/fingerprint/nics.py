"""The NICs that carry NCCL's traffic, by what they can do, and the set of their kinds.

NCCL takes RDMA devices where there are any, and Ethernet interfaces only without them (`NET/IB`, else `NET/Socket`).
The rate of a port is that of the fastest port of the same model and link layer in the node: one that fell, or is down,
keeps the node in its class, where it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.fingerprint import NetworkDevice
from rankmuster.model.node_path import NicPath, NicPort
from rankmuster.model.unknown import Unknown

VIRTUAL = "virtual"
"""Model of an interface without a PCI device behind it (veth, bond)."""


def carrying(nics: Sequence[NicPath]) -> tuple[NicPath, ...]:
    """The NICs that NCCL would use, in its order."""
    return tuple(nic for nic in nics if nic.rdma) or tuple(nics)


def model_of(nic: NicPath, unknowns: Unknowns) -> str:
    """What kind of NIC it is; an interface without a device behind it is VIRTUAL."""
    if isinstance(nic.model, Unknown) and nic.address is None and not nic.rdma:
        return VIRTUAL
    return unknowns.known(f"model of NIC {nic.name}", nic.model, "")


def ports_of(nic: NicPath, nics: Sequence[NicPath], unknowns: Unknowns) -> list[tuple[str, float | None]]:
    """(link layer, Gb/s) of each port, sorted; None where the driver of an Ethernet interface gives no rate, which
    NCCL then takes for 10 Gb/s."""
    found = []
    for port in nic.ports:
        layer = unknowns.known(f"link layer of NIC {nic.name}", port.link_layer, "")
        found.append((layer, _rate(nic, port, nics, unknowns)))
    return sorted(found, key=repr)


def _rate(nic: NicPath, port: NicPort, nics: Sequence[NicPath], unknowns: Unknowns) -> float | None:
    rates = [
        other.rate_gbps
        for beside in nics
        if beside is nic or (beside.rdma is nic.rdma and beside.model == nic.model)
        for other in beside.ports
        if (other is port or other.link_layer == port.link_layer) and not isinstance(other.rate_gbps, Unknown)
    ]
    if rates:
        return max(rates)
    if nic.rdma:
        return unknowns.known(f"rate of NIC {nic.name}", port.rate_gbps, 0.0)
    return None


def device_set(nics: tuple[NicPath, ...] | Unknown) -> tuple[NetworkDevice, ...] | Unknown:
    """The kinds of NICs and how many of each, sorted; one entry for each port's link layer and rate."""
    if isinstance(nics, Unknown):
        return Unknown(f"NICs unknown: {nics.reason}")
    unknowns = Unknowns()
    kinds: Counter[tuple[str, str, float | None, str | None]] = Counter()
    used = carrying(nics)
    for nic in used:
        model = model_of(nic, unknowns)
        firmware = _firmware(nic, unknowns)
        for layer, rate in ports_of(nic, used, unknowns) or [("Ethernet" if not nic.rdma else "", None)]:
            kinds[model, layer, rate, firmware] += 1
    if unknowns:
        return unknowns.as_unknown()
    return tuple(NetworkDevice(*kind, count) for kind, count in sorted(kinds.items(), key=repr))


def _firmware(nic: NicPath, unknowns: Unknowns) -> str | None:
    """Ethernet interfaces do not tell theirs without an ioctl; of RDMA devices it is a file."""
    if nic.rdma:
        return unknowns.known(f"firmware of NIC {nic.name}", nic.firmware, "")
    return None if isinstance(nic.firmware, Unknown) else nic.firmware
