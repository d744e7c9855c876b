"""The NICs that carry NCCL's traffic, by what they can do, and the set of their kinds.

NCCL takes RDMA devices where there are any, and Ethernet interfaces only without them (`NET/IB`, else `NET/Socket`).
The rate of a port is the most that its model can do (`nic_models`), and none where the model is not known: what ports
run at is their state. Any rate that was seen, the fastest of the node's ports too, is another one on a node whose only
NIC fell, or all of whose ports did, and would make it a class of its own, compared with nobody. What was seen stands in
`made_from`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rankmuster.baseline.fingerprint.nic_models import most_gbps
from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.fingerprint import NetworkDevice
from rankmuster.model.node_path import NicPath
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


def ports_of(nic: NicPath, unknowns: Unknowns) -> list[tuple[str, float | None]]:
    """(link layer, Gb/s at most) of each port, sorted; None where nothing tells what the model can do."""
    most = None if isinstance(nic.model, Unknown) else most_gbps(nic.model)
    return sorted(
        ((unknowns.known(f"link layer of NIC {nic.name}", port.link_layer, ""), most) for port in nic.ports), key=repr
    )


def device_set(nics: tuple[NicPath, ...] | Unknown) -> tuple[NetworkDevice, ...] | Unknown:
    """The kinds of NICs and how many of each, sorted; one entry for each port's link layer and rate."""
    if isinstance(nics, Unknown):
        return Unknown(f"NICs unknown: {nics.reason}")
    unknowns = Unknowns()
    kinds: Counter[tuple[str, str, float | None, str | None]] = Counter()
    for nic in carrying(nics):
        model = model_of(nic, unknowns)
        firmware = _firmware(nic, unknowns)
        for layer, rate in ports_of(nic, unknowns) or [("Ethernet" if not nic.rdma else "", None)]:
            kinds[model, layer, rate, firmware] += 1
    if unknowns:
        return unknowns.as_unknown()
    return tuple(NetworkDevice(*kind, count) for kind, count in sorted(kinds.items(), key=repr))


def _firmware(nic: NicPath, unknowns: Unknowns) -> str | None:
    """Ethernet interfaces do not tell theirs without an ioctl; of RDMA devices it is a file."""
    if nic.rdma:
        return unknowns.known(f"firmware of NIC {nic.name}", nic.firmware, "")
    return None if isinstance(nic.firmware, Unknown) else nic.firmware
