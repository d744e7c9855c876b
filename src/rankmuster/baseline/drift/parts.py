"""Which kind of drift a changed part of a fingerprint is, by the first words of its path."""

from __future__ import annotations

from rankmuster.model.drift import DriftKind
from rankmuster.model.fingerprint import Change

PROFILE = "ncclTestProfile"
"""Which benchmark was run last says nothing of the node."""

_KINDS = {
    "nccl_view": DriftKind.CHOICE,
    "nics": DriftKind.NIC,
    "networkDeviceSet": DriftKind.NIC,
    "nicOrder": DriftKind.NIC,
    "settings": DriftKind.SETTING,
    "container": DriftKind.SETTING,
    "nccl_settings": DriftKind.SETTING,
    "driver": DriftKind.VERSION,
    "cuda_driver": DriftKind.VERSION,
    "imageDigest": DriftKind.VERSION,
    "cudaVersion": DriftKind.VERSION,
    "ncclVersion": DriftKind.VERSION,
    "pytorchVersion": DriftKind.VERSION,
    "engine": DriftKind.VERSION,
    "engineVersion": DriftKind.VERSION,
}

_MEMBERS = {"gpus": 1, "nics": 1, "bridges": 1, "matrices": 2, "nccl_view": 2}
"""Where the path says which of several parts it is of."""


def kind_of(part: str) -> DriftKind:
    """What is none of the others is part of the topology."""
    first, _, rest = part.partition("/")
    if rest.endswith("/vbios"):
        return DriftKind.VERSION
    return _KINDS.get(first, DriftKind.TOPOLOGY)


def place(part: str) -> str:
    """The part without which of several it is, the same on every node: `gpus/*/vbios`."""
    words = part.split("/")
    member = _MEMBERS.get(words[0])
    if member is None or len(words) <= member:
        return part
    return "/".join([*words[:member], "*", *words[member + 1 :]])


def matters(change: Change) -> bool:
    """Whether it is told as a drift: something that results or NCCL's choices depend on."""
    return change.part != PROFILE and (bool(change.effect) or not change.applies)
