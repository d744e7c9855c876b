"""Which kind of drift a changed part of a fingerprint is."""

from __future__ import annotations

import re

from rankmuster.model.drift import DriftKind
from rankmuster.model.fingerprint import Change

UNKNOWN = "unknown"

_KINDS: tuple[tuple[DriftKind, re.Pattern[str]], ...] = (
    (DriftKind.CHOICE, re.compile(r"choice|algorithm|protocol|channel|transport|nccl_?view|graphs?\b", re.IGNORECASE)),
    (DriftKind.NIC, re.compile(r"^(?:made_from/)?(?:nics?|network|nic_?order|rdma|gid|networkDevice)", re.IGNORECASE)),
    (
        DriftKind.SETTING,
        re.compile(
            r"^(?:made_from/)?(?:settings?|container|nccl_settings|environment)\b|/(?:mig|ecc)\b", re.IGNORECASE
        ),
    ),
    (
        DriftKind.VERSION,
        re.compile(r"driver|image|cuda|nccl|pytorch|engine|vbios|version|firmware|software", re.IGNORECASE),
    ),
)

_NUMBER = re.compile(r"(?<=/)\d+(?=/|$)|(?<=\[)\d+(?=\])")


def kind_of(part: str) -> DriftKind:
    """By the part's path in the document; what is none of the others is part of the topology."""
    return next((kind for kind, pattern in _KINDS if pattern.search(part)), DriftKind.TOPOLOGY)


def place(part: str) -> str:
    """The part without numbers, the same for every GPU and NIC: `gpus/*/vbios`."""
    return _NUMBER.sub("*", part)


def is_unknown(change: Change) -> bool:
    """Whether it only says that something is not known: no drift, and no sameness either."""
    return change.before.startswith(UNKNOWN) or change.after.startswith(UNKNOWN)
