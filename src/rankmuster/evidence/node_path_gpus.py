"""GPUs from captured text: `nvidia-smi -q` (text, XML, CSV), -L, `nvlink -s` and the matrices, joined by index, UUID
and PCI address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.evidence.node_path_hosts import NotOneNode, Piece
from rankmuster.evidence.node_path_links import FarEnds, captured_links
from rankmuster.evidence.pci import address, bus_id
from rankmuster.evidence.pci_link import generation_number, width
from rankmuster.model.captured_path import NvlinkRemotes
from rankmuster.model.node_path import GpuPath, Link, PciNode
from rankmuster.model.topology import GpuFacts, NvlinkStatus, TopologyMatrix
from rankmuster.model.unknown import Unknown

KEYS = {
    "driver": ("Driver Version", "driver_version"),
    "cuda": ("CUDA Version", "cuda_version"),
    "vbios": ("VBIOS Version", "vbios_version"),
    "bus": ("PCI / Bus Id", "pci / pci_bus_id", "pci.bus_id", "gpu_bus_id"),
    "generation": (
        "PCI / GPU Link Info / PCIe Generation / Current",
        "pci / pci_gpu_link_info / pcie_gen / current_link_gen",
        "pcie.link.gen.current",
        "pcie.link.gen.gpucurrent",
    ),
    "generation_max": (
        "PCI / GPU Link Info / PCIe Generation / Max",
        "pci / pci_gpu_link_info / pcie_gen / max_link_gen",
        "pcie.link.gen.max",
    ),
    "width": (
        "PCI / GPU Link Info / Link Width / Current",
        "pci / pci_gpu_link_info / link_widths / current_link_width",
        "pcie.link.width.current",
    ),
    "width_max": (
        "PCI / GPU Link Info / Link Width / Max",
        "pci / pci_gpu_link_info / link_widths / max_link_width",
        "pcie.link.width.max",
    ),
    "mig": ("MIG Mode / Current", "mig_mode / current_mig", "mig.mode.current"),
    "ecc": ("ECC Mode / Current", "ecc_mode / current_ecc", "ecc.mode.current"),
}
"""What is wanted -> under which keys the text, the XML and the CSV of nvidia-smi say it."""

KEPT = re.compile(
    r"error$|(?:ECC|Remapped Rows|Retired Pages|MIG|Fabric|GPU Recovery Action|Persistence Mode|NVLink|Row Remapper|"
    r"PCI / (?:Replay|Correctable|NAK|Receiver|Bad|Non Fatal|Fatal|L0)|FB Memory Usage / Total|GPU Virtualization Mode)"
)
"""Facts that are handed on: health and settings; no serial numbers, and nothing that changes from second to second."""

_GPU = re.compile(r"GPU(\d{1,4})")
_NOTHING = re.compile(r"\[?(?:N/A|Not Supported|Requested functionality has been deprecated)\]?", re.IGNORECASE)
_TROUBLE = re.compile(r"\[?(?:Unknown Error|GPU is lost|ERR!|Insufficient Permissions)", re.IGNORECASE)


@dataclass(slots=True)
class _Gpu:
    index: int
    uuid: str | None = None
    bus: str | None = None
    name: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    status: NvlinkStatus | None = None

    def said(self, what: str) -> str | None:
        """The first of the keys that says something; what says that it cannot tell is passed over."""
        values = (self.facts.get(key) for key in KEYS[what])
        return next((value for value in values if value and not _TROUBLE.match(value)), None)


def captured_gpus(own: Sequence[Piece], tree: Mapping[str, PciNode]) -> tuple[GpuPath, ...] | Unknown:
    """By index. Unknown where no text tells which GPUs there are. Raises NotOneNode where two GPUs claim one index."""
    matrices = [piece for piece in own if isinstance(piece, TopologyMatrix)]
    found = _joined(own, matrices)
    if not found:
        return Unknown("no text tells which GPUs there are (nvidia-smi -L, -q or topo -m)")
    far = FarEnds(
        {piece.gpu: piece.remotes for piece in own if isinstance(piece, NvlinkRemotes)},
        {gpu.bus: gpu.index for gpu in found if gpu.bus},
    )
    return tuple(_path(gpu, tree, matrices, far) for gpu in sorted(found, key=lambda gpu: gpu.index))


def shared_fact(own: Sequence[Piece], what: str) -> str | Unknown:
    """The driver's or CUDA's version, where all GPUs say the same."""
    values = {
        value
        for piece in own
        if isinstance(piece, GpuFacts)
        for key in KEYS[what]
        if (value := piece.facts.get(key)) and not _NOTHING.fullmatch(value) and not _TROUBLE.match(value)
    }
    if len(values) == 1:
        return next(iter(values))
    if values:
        return Unknown(f"the texts contradict each other: {', '.join(sorted(values)[:4])}; capture them again together")
    return Unknown("no text tells it (nvidia-smi -q, or --query-gpu)")


def _joined(own: Sequence[Piece], matrices: Iterable[TopologyMatrix]) -> list[_Gpu]:
    gpus: dict[int, _Gpu] = {}
    facts = [piece for piece in own if isinstance(piece, GpuFacts)]
    for each in facts:
        if each.index is not None:
            gpu = gpus.setdefault(each.index, _Gpu(each.index))
            if gpu.uuid and each.uuid and gpu.uuid != each.uuid:
                raise NotOneNode(
                    f"GPU {each.index} is {gpu.uuid} in one text and {each.uuid} in {each.source}: they are of two "
                    "hosts, or the machine was changed in between; say which host is meant, or give one capture"
                )
            _add(gpu, each)
    # A heading alone, as -L prints it too, says nothing of links.
    statuses = [piece for piece in own if isinstance(piece, NvlinkStatus) and (piece.links or piece.note)]
    for status in statuses:
        if status.gpu.isdecimal():
            gpu = gpus.setdefault(int(status.gpu), _Gpu(int(status.gpu)))
            gpu.uuid = gpu.uuid or status.uuid
            gpu.status = status
    for matrix in matrices:
        for label in matrix.rows:
            match = _GPU.fullmatch(label)
            if match:
                gpus.setdefault(int(match.group(1)), _Gpu(int(match.group(1))))
    loose = [each for each in facts if each.index is None]
    for each in loose:
        same = _same(gpus.values(), each.uuid, each.bus_id)
        if same is not None:
            _add(same, each)
    if not gpus:
        # NVML's index is the order of PCI addresses.
        for index, each in enumerate(sorted((e for e in loose if e.bus_id), key=lambda e: e.bus_id or "")):
            same = _same(gpus.values(), None, each.bus_id)
            _add(same or gpus.setdefault(index, _Gpu(len(gpus))), each)
    for status in statuses:
        if not status.gpu.isdecimal() and (same := _same(gpus.values(), status.uuid, status.gpu or None)):
            same.status = status
    return list(gpus.values())


def _same(gpus: Iterable[_Gpu], uuid: str | None, bus: str | None) -> _Gpu | None:
    for gpu in gpus:
        if (uuid and gpu.uuid == uuid) or (bus and gpu.bus and bus_id(gpu.bus) == bus_id(bus)):
            return gpu
    return None


def _add(gpu: _Gpu, said: GpuFacts) -> None:
    gpu.uuid, gpu.name = gpu.uuid or said.uuid, gpu.name or said.name
    gpu.facts = {**said.facts, **gpu.facts}
    full = next((value for key in KEYS["bus"] if (value := said.facts.get(key))), None) or said.bus_id
    gpu.bus = gpu.bus or (address(full) if full else None)


def _path(gpu: _Gpu, tree: Mapping[str, PciNode], matrices: Sequence[TopologyMatrix], far: FarEnds) -> GpuPath:
    error = gpu.facts.get("error")
    why = Unknown(
        f"nvidia-smi says of GPU {gpu.index}: {error[:200]}" if error else f"no text tells it of GPU {gpu.index}"
    )
    node = tree.get(gpu.bus) if gpu.bus else None
    return GpuPath(
        index=gpu.index,
        uuid=gpu.uuid or why,
        bus_id=gpu.bus or why,
        model=gpu.name or why,
        vbios=gpu.said("vbios") or why,
        numa=node.numa if node is not None else _numa(gpu.index, matrices, why),
        pcie=_link(gpu, node, why),
        links=captured_links(gpu.index, gpu.status, matrices, far),
        mig=_mode(gpu.said("mig"), why),
        ecc=_mode(gpu.said("ecc"), why),
        facts={key: value for key, value in gpu.facts.items() if KEPT.match(key)},
    )


def _mode(said: str | None, why: Unknown) -> str | Unknown:
    if said is None:
        return why
    return "N/A" if _NOTHING.fullmatch(said) else said


def _numa(index: int, matrices: Iterable[TopologyMatrix], why: Unknown) -> int | Unknown:
    for matrix in matrices:
        said = matrix.numa_affinity.get(f"GPU{index}")
        if said == "N/A":
            return -1
        if said is not None and re.fullmatch(r"\d{1,4}", said):
            return int(said)
    return why


def _link(gpu: _Gpu, node: PciNode | None, why: Unknown) -> Link:
    generation, most = gpu.said("generation"), gpu.said("generation_max")
    lanes, most_lanes = gpu.said("width"), gpu.said("width_max")
    tree = node.link if node is not None else Link(why, why, why, why)
    return Link(
        generation_number(generation, "nvidia-smi") if generation else tree.generation,
        width(lanes, "nvidia-smi") if lanes else tree.width,
        generation_number(most, "nvidia-smi") if most else tree.generation_max,
        width(most_lanes, "nvidia-smi") if most_lanes else tree.width_max,
    )
