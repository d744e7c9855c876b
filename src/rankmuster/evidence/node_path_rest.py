"""Processor, container, software and NCCL's own view from captured text and bundles."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from rankmuster.evidence.node_path_hosts import Piece
from rankmuster.evidence.pci import bus_id
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.captured_path import CapturedCpu, CapturedSpace
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.nccllog import NcclSetting, NcclTopology, NcclTransport, NcclTuning, NcclVersionLine
from rankmuster.model.node import NodeState
from rankmuster.model.node_path import ContainerFacts, CpuFacts, GpuPath, NcclView, PciNode, SoftwareFacts
from rankmuster.model.unknown import Unknown

MAX_CHOICES = 4096
"""Distinct choices that are kept: operations times sizes of a benchmark are some hundreds."""

_NAME = re.compile(r"NCCL_[A-Z0-9_]{1,100}")
POD = frozenset({"pod / pod_uid", "pod / pod_name"})
"""Facts of platform/node.json that only a pod has."""


def captured_cpu(own: Sequence[Piece]) -> CpuFacts:
    """Each value from the first text that knows it."""
    parts = [piece.cpu for piece in own if isinstance(piece, CapturedCpu)]
    unknown = Unknown("no text tells it (lscpu, numactl -H)")
    known = {
        field.name: next(
            (value for part in parts if not isinstance(value := getattr(part, field.name), Unknown)), unknown
        )
        for field in fields(CpuFacts)
    }
    return CpuFacts(**known)


def captured_container(
    own: Sequence[Piece], gpus: tuple[GpuPath, ...] | Unknown, tree: Mapping[str, PciNode]
) -> ContainerFacts:
    """What `df /dev/shm` and a bundle's platform/node.json tell."""
    states = [piece for piece in own if isinstance(piece, NodeState)]
    facts: dict[str, str] = {}
    for state in states:
        facts.update(state.facts)
    locked = [task.memlock_bytes for state in states for task in state.tasks if task.memlock_bytes is not None]
    space = next((piece.size_bytes for piece in own if isinstance(piece, CapturedSpace)), None)
    shared = [memory.size_bytes for state in states for memory in state.shared_memory]
    if space is None and shared:
        space = min(shared)
    unknown = Unknown("no text tells it")
    return ContainerFacts(
        container="kubernetes" if facts.keys() & POD else unknown,
        sys_complete=_complete(gpus, tree),
        shm_bytes=space if space is not None else Unknown("no text tells it (df /dev/shm)"),
        memlock_bytes=min(locked, default=math.nan) if locked else Unknown("no text tells it (platform/node.json)"),
        cgroup=unknown,
        devices=unknown,
        iommu=_iommu(facts),
        gpudirect="peermem" if facts.get("devices / nvidia_peermem") == "True" else unknown,
    )


def _complete(gpus: tuple[GpuPath, ...] | Unknown, tree: Mapping[str, PciNode]) -> bool | Unknown:
    if not tree or isinstance(gpus, Unknown):
        return Unknown("no text tells it (a capture of /sys/bus/pci/devices together with the GPUs' addresses)")
    seen = {bus_id(place) for place in tree}
    places = [gpu.bus_id for gpu in gpus]
    if any(isinstance(place, Unknown) for place in places):
        return Unknown("no text tells where every GPU sits")
    return all(isinstance(place, str) and bus_id(place) in seen for place in places)


def _iommu(facts: Mapping[str, str]) -> str | Unknown:
    kinds = {key.rsplit(" / ", 1)[1] for key in facts if key.startswith("devices / iommu_group_types / ")}
    if kinds & {"DMA", "DMA-FQ"}:
        return "translated"
    if kinds == {"identity"}:
        return "identity"
    if not kinds and "devices / sys_mounted" in facts and "devices / iommus" not in facts:
        return "off" if facts["devices / sys_mounted"] == "True" else Unknown("/sys was not mounted there")
    return Unknown("no text tells it (platform/node.json)")


def captured_software(observations: Sequence[object]) -> SoftwareFacts:
    """NCCL's version line, where all ranks print the same; the rest is not in what NCCL logs."""
    lines = [each for each in observations if isinstance(each, NcclVersionLine)]
    unknown = Unknown("no text tells it; `rankmuster fingerprint` on the node does")
    return SoftwareFacts(
        image_digest=unknown,
        cuda_runtime=_same({line.cuda for line in lines if line.cuda}, "CUDA"),
        nccl=_same({line.version for line in lines}, "NCCL"),
        pytorch=unknown,
        engine=unknown,
        engine_version=unknown,
    )


def _same(values: set[str], what: str) -> str | Unknown:
    if len(values) == 1:
        return next(iter(values))
    if values:
        return Unknown(f"several versions of {what} are in the logs: {', '.join(sorted(values)[:4])}")
    return Unknown(f"no log tells the version of {what} (NCCL_DEBUG=VERSION or INFO)")


def captured_settings(observations: Sequence[object]) -> dict[str, str] | Unknown:
    """NCCL_* values of NCCL's own lines and of a bundle's environment, where secrets are masked already."""
    found: dict[str, str] = {}
    told = False
    for each in observations:
        if isinstance(each, InstanceFacts) and each.environment:
            told = True
            found.update({name: value for name, value in each.environment.items() if _NAME.fullmatch(name)})
        elif isinstance(each, NcclSetting) and _NAME.fullmatch(each.name):
            told = True
            found.setdefault(each.name, each.value)
    if not told:
        return Unknown("no text tells the environment (a bundle's instance.json, or NCCL's log with NCCL_DEBUG=INFO)")
    return dict(sorted(found.items()))


def captured_view(observations: Sequence[object]) -> NcclView | None:
    """NCCL's topology and graphs, and what it chose; None where no run of it was captured."""
    topologies = [each for each in observations if isinstance(each, NcclTopology)]
    tunings = [each for each in observations if isinstance(each, NcclTuning)]
    transports = [each.via for each in observations if isinstance(each, NcclTransport)]
    if not (topologies or tunings or transports):
        return None
    choices = dict.fromkeys(
        AlgorithmChoice(
            tuning.op or "?",
            tuning.bytes,
            tuning.algorithm,
            tuning.protocol,
            tuning.channels[1] - tuning.channels[0] + 1 if tuning.channels else None,
        )
        for tuning in tunings
    )
    gpus = next((each.gpus for each in topologies if each.gpus), ())
    nets = next((each.nets for each in topologies if each.nets), ())
    graphs = next((each.graphs for each in topologies if each.graphs), ())
    return NcclView(gpus, nets, graphs, tuple(choices)[:MAX_CHOICES], tuple(sorted(set(transports))))
