"""What can be set on a node and changes NCCL's choices: the part of a class in which kin may differ.

A setting stands here only where it can matter. ACS, IOMMU and GPUDirect steer traffic over PCIe: where all GPUs have
NVLink to each other and there is no RDMA NIC, nothing of NCCL crosses PCIe between devices. Left out there, a container
that may not read ACS (it needs CAP_SYS_ADMIN) still has a known class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rankmuster.baseline.fingerprint.nics import carrying
from rankmuster.baseline.fingerprint.nvlinks import all_linked
from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.model.node_path import ContainerFacts, Matrix, NodePath, PciNode
from rankmuster.model.unknown import Unknown

SHM_ENOUGH_BYTES = 1 << 30
"""Size of shared memory from which on it does not matter: what NCCL's user guide asks for (Troubleshooting, Docker:
`--shm-size=1g`). Larger ones differ by a few MB between equal machines, as half of their memory is the default."""

NCCL_UNKNOWN = "NCCL_*"
"""Stands for all NCCL values where neither the environment nor nccl.conf could be read."""

PEER_MATRICES = {"r": "p2p.read", "w": "p2p.write"}
"""The two that NCCL asks for before it lets GPUs read each other's memory (src/misc/nvmlwrap.cc, src/graph/paths.cc);
the others (NVLink, atomics, PCIe) are in what the fingerprint was made from."""

_OK = "OK"
_SELF = "X"


def settings_of(path: NodePath) -> dict[str, str | Unknown]:
    """Every setting by name, in the order of the names; values as text."""
    found: dict[str, str | Unknown] = {}
    if isinstance(path.nccl_settings, Unknown):
        found[NCCL_UNKNOWN] = Unknown(path.nccl_settings.reason)
    else:
        found |= {name: value.strip() for name, value in path.nccl_settings.items() if changes_choices(name)}
    if isinstance(path.gpus, Unknown):
        found |= {"mig": Unknown(path.gpus.reason), "ecc": Unknown(path.gpus.reason)}
    elif path.gpus:
        found["mig"] = _of_all([gpu.mig for gpu in path.gpus])
        found["ecc"] = _of_all([gpu.ecc for gpu in path.gpus])
    if not isinstance(path.gpus, tuple) or len(path.gpus) > 1:
        for kind, name in PEER_MATRICES.items():
            found[name] = _peers(path.matrices.get(kind), kind)
    found |= _container(path.container)
    found |= _over_pcie(path)
    return dict(sorted(found.items()))


def _container(facts: ContainerFacts) -> dict[str, str | Unknown]:
    shm = facts.shm_bytes
    complete = facts.sys_complete
    return {
        "sys.complete": complete if isinstance(complete, Unknown) else "yes" if complete else "no",
        "shm": shm if isinstance(shm, Unknown) else "enough" if shm >= SHM_ENOUGH_BYTES else f"{shm >> 20} MiB",
    }


def _over_pcie(path: NodePath) -> dict[str, str | Unknown]:
    """The settings that steer traffic between devices over PCIe, () where there is none."""
    rdma = isinstance(path.nics, Unknown) or any(nic.rdma for nic in carrying(path.nics))
    linked = all_linked(path.gpus) if isinstance(path.gpus, tuple) else False
    found: dict[str, str | Unknown] = {}
    if rdma:
        found["gpudirect"] = path.container.gpudirect
    if rdma or linked is not True:
        found["iommu"] = path.container.iommu
        found["acs"] = _acs(path)
    return found


def _acs(path: NodePath) -> str | Unknown:
    """Of the bridges above GPUs and NICs: whether peer-to-peer traffic is sent up to the root."""
    if isinstance(path.pci, Unknown):
        return Unknown(path.pci.reason)
    bridges = above_devices(path)
    states = [bridge.acs_redirects for bridge in bridges]
    unknown = next((state for state in states if isinstance(state, Unknown)), None)
    if unknown is not None:
        return unknown
    redirecting = sum(1 for state in states if state is True)
    if not redirecting:
        return "off"
    return "on" if redirecting == len(states) else f"on for {redirecting} of {len(states)} bridges"


def above_devices(path: NodePath) -> tuple[PciNode, ...]:
    """The bridges above GPUs and the NICs that NCCL would use, each once."""
    if isinstance(path.pci, Unknown):
        return ()
    tree = {node.address: node for node in path.pci}
    devices: list[object] = [gpu.bus_id for gpu in path.gpus] if isinstance(path.gpus, tuple) else []
    devices += [nic.address for nic in carrying(path.nics)] if isinstance(path.nics, tuple) else []
    found: dict[str, PciNode] = {}
    for address in devices:
        node = tree.get(address) if isinstance(address, str) else None
        while node is not None and node.parent is not None and node.parent not in found:
            node = tree.get(node.parent)
            if node is not None:
                found[node.address] = node
    return tuple(found.values())


def _of_all(values: list[str | Unknown]) -> str | Unknown:
    """One word for all GPUs, or how many have which."""
    unknown = next((value for value in values if isinstance(value, Unknown)), None)
    if unknown is not None:
        return unknown
    counts = Counter(str(value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} on {count} GPUs" for value, count in sorted(counts.items()))


def _peers(matrix: Matrix | None, kind: str) -> str | Unknown:
    if matrix is None:
        return Unknown(f"the matrix of `nvidia-smi topo -p2p {kind}` was not read")
    counts = Counter(word for (row, column), word in _gpu_pairs(matrix.cells).items() if row != column)
    bad = {word: count for word, count in counts.items() if word not in (_OK, _SELF)}
    if not bad:
        return _OK if counts else Unknown(f"the matrix of `nvidia-smi topo -p2p {kind}` has no cells")
    return ", ".join(f"{word} for {count} of {counts.total()} pairs" for word, count in sorted(bad.items()))


def _gpu_pairs(cells: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return {pair: word for pair, word in cells.items() if all(label.startswith("GPU") for label in pair)}
