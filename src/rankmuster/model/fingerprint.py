"""The communication fingerprint of a node: what its communication path is made of, and the hashes that name it.

Three hashes, each over canonical JSON (keys sorted, UTF-8, no locale anywhere), `sha256:` and 64 hex digits:

- `topology_hash`: the node *model*. The canonical graph of GPUs, links, switches, NICs and NUMA nodes, without bus
  numbers, names, UUIDs or serials, and by what a part *can* do (link count, PCIe generation and width at most): a
  healthy node and its neighbour with a lost link have the same, or the neighbour would be compared with nobody.
- `class_hash`: everything a result depends on (`kin_hash` and `settings`). Results are compared within one class.
- `node_hash`: this very machine (GPU UUIDs, NIC GUIDs).

An `Unknown` part makes the hash over it `Unknown`: what is not known equals nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.model.unknown import Unknown

SCHEMA = "rankmuster.fingerprint/1"

NONE = "none"
"""Known to be absent: no container (image digest), no serving engine, no torch installed. Not `Unknown`."""


KIN_FIELDS = {
    "imageDigest": "image_digest",
    "cudaVersion": "cuda_version",
    "ncclVersion": "nccl_version",
    "pytorchVersion": "pytorch_version",
    "engine": "engine",
    "engineVersion": "engine_version",
    "gpuModel": "gpu_model",
    "gpuCount": "gpu_count",
    "driver": "driver",
    "topologyHash": "topology_hash",
    "networkDeviceSet": "network_device_set",
    "nicOrder": "nic_order",
}
"""What the kin hash is over: name in the document -> field of `Fingerprint`. A new field is not among them silently."""


@dataclass(frozen=True, slots=True)
class NetworkDevice:
    """A kind of NIC and how many the node has of it; no name, address or GUID, so that nodes compare."""

    model: str  # hca_type or vendor:device, "MT4129"
    link_layer: str  # InfiniBand, Ethernet
    rate_gbps: float | None
    firmware: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """See the module. Any field may be `Unknown`; `made_from` is plain JSON values with `Unknown` as leaves.

    `nic_order`: position of each NIC in the canonical graph, in the order in which NCCL numbers them: the same NICs
    in another order choose other rails. `settings`: what can be set and changes NCCL's choices, by name: NCCL_*
    values, MIG, ECC, ACS, IOMMU, GPUDirect, /dev/shm. `taken_at`: unix seconds.
    """

    host: str | None
    taken_at: float
    image_digest: str | Unknown
    cuda_version: str | Unknown
    nccl_version: str | Unknown
    pytorch_version: str | Unknown
    engine: str | Unknown  # "vllm", NONE
    engine_version: str | Unknown
    gpu_model: str | Unknown
    gpu_count: int | Unknown
    driver: str | Unknown
    topology_hash: str | Unknown
    nccl_test_profile: str | Unknown  # Profile.key, NONE where no benchmark belongs to it
    network_device_set: tuple[NetworkDevice, ...] | Unknown
    nic_order: tuple[int, ...] | Unknown
    settings: Mapping[str, str | Unknown]
    kin_hash: str | Unknown  # hardware and software, without settings
    class_hash: str | Unknown
    node_hash: str | Unknown
    made_from: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two fingerprints.

    `part`: path in the document ("gpus/0/vbios"); `before`, `after`: as text, `unknown (reason)` for what is unknown.
    `effect`: in words what that does to NCCL's choices or to the results; empty where it does nothing known.
    `applies`: whether results from before can still be compared with; `regenerate`: what has to be measured anew.
    """

    part: str
    before: str
    after: str
    effect: str
    applies: bool
    regenerate: tuple[str, ...] = ()
