"""What drifted nodes have in common and the others have not: the driver, an image, a firmware, a setting."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rankmuster.baseline.drift.chance import shares_at_least
from rankmuster.baseline.drift.fleet import known
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shared:
    """`hit` of the `having` nodes with `value` drifted, and `others_hit` of the `others` without it.

    `other_values`: what the others have, most frequent first. `chance`: Fisher's, times the attributes compared.
    """

    attribute: str
    value: str
    hit: int
    having: int
    others_hit: int
    others: int
    other_values: tuple[str, ...]
    chance: float

    @property
    def words(self) -> str:
        """`all 37 nodes with driver 580.2, none of the 900 with 580.1`."""
        have = f"all {self.having} nodes" if self.hit == self.having else f"{self.hit} of the {self.having} nodes"
        none = "none" if self.others_hit == 0 else str(self.others_hit)
        other = self.other_values[0] if len(self.other_values) == 1 else "another"
        return f"{have} with {self.attribute} {self.value}, {none} of the {self.others} with {other}"


_FIELDS = (
    ("driver", "driver"),
    ("image", "image_digest"),
    ("CUDA", "cuda_version"),
    ("NCCL", "nccl_version"),
    ("PyTorch", "pytorch_version"),
    ("engine", "engine"),
    ("engine version", "engine_version"),
    ("GPU model", "gpu_model"),
    ("topology", "topology_hash"),
)


_NUMBER_AT_THE_END = re.compile(r"[-_.]?\d+\Z")


def attributes_of(fingerprint: Fingerprint) -> dict[str, str]:
    """Everything of a node that others may share, by the name that messages use; unknown values are left out.

    The host's name without its last number too: where racks and switches are in the names, that is what shows them.
    """
    found = {}
    rack = _NUMBER_AT_THE_END.sub("", (fingerprint.host or "").split(".")[0])
    if rack and rack != fingerprint.host:
        found["names like"] = f"{rack}*"
    for name, field in _FIELDS:
        value = known(getattr(fingerprint, field))
        if value is not None:
            found[name] = value.removeprefix("sha256:")[:12] if field == "topology_hash" else value
    if not isinstance(fingerprint.network_device_set, Unknown):
        for device in fingerprint.network_device_set:
            if device.firmware is not None:
                found[f"{device.model} firmware"] = device.firmware
            if device.rate_gbps is not None:
                found[f"{device.model} rate"] = f"{device.rate_gbps:g} Gb/s"
    if not isinstance(fingerprint.nic_order, Unknown):
        found["NIC order"] = " ".join(map(str, fingerprint.nic_order)) or "none"
    for name, setting in fingerprint.settings.items():
        if not isinstance(setting, Unknown):
            found[name] = setting
    return found


def attribute(
    drifted: Collection[str], everybody: Mapping[str, Attributes], settings: DriftSettings
) -> tuple[Shared, ...]:
    """The values that separate the drifted nodes from the others, those that do it equally well together; () for none.

    `everybody`: node -> its attributes. An attribute that a node does not have counts as the value "unset".
    """
    hit = [node for node in everybody if node in drifted]
    names = sorted({name for attributes in everybody.values() for name in attributes})
    if not hit or len(hit) == len(everybody):
        return ()
    found: list[Shared] = []
    for name in names:
        values = {node: attributes.get(name, "unset") for node, attributes in everybody.items()}
        if len(set(values.values())) < 2:
            continue
        for value in sorted({values[node] for node in hit}):
            found.append(_shared(name, value, values, drifted))
    bound = settings.attribution_p / max(1, len(found))
    convincing = [one for one in found if one.chance < bound]
    if not convincing:
        return ()
    best = min(one.chance for one in convincing)
    return tuple(_corrected(one, len(found)) for one in convincing if one.chance <= best * (1 + 1e-6))


def _shared(name: str, value: str, values: Mapping[str, str], drifted: Collection[str]) -> Shared:
    having = [node for node, one in values.items() if one == value]
    others = [node for node, one in values.items() if one != value]
    hit = sum(node in drifted for node in having)
    others_hit = sum(node in drifted for node in others)
    counts: dict[str, int] = {}
    for node in others:
        counts[values[node]] = counts.get(values[node], 0) + 1
    return Shared(
        attribute=name,
        value=value,
        hit=hit,
        having=len(having),
        others_hit=others_hit,
        others=len(others),
        other_values=tuple(sorted(counts, key=lambda one: (-counts[one], one))),
        chance=shares_at_least(hit, len(having), hit + others_hit, len(values)),
    )


def _corrected(one: Shared, compared: int) -> Shared:
    return Shared(
        one.attribute,
        one.value,
        one.hit,
        one.having,
        one.others_hit,
        one.others,
        one.other_values,
        min(1.0, one.chance * compared),
    )
