"""What a stored fingerprint looks like: the names of its fields in their order, and the hashes that keep it unchanged.

`fingerprintHash` is over `sections`, the hashes of the document's parts, so that a changed file can be told which of
its parts were changed. Unknown values are `{unknown: reason}`; a key of that name in what was read gets a `=` before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankmuster.model.digest import digest
from rankmuster.model.fingerprint import SCHEMA, Fingerprint, NetworkDevice
from rankmuster.model.unknown import Unknown

UNKNOWN = "unknown"
_ESCAPE = "="

FINGERPRINT_FIELDS = {
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
    "ncclTestProfile": "nccl_test_profile",
    "networkDeviceSet": "network_device_set",
}
"""Name under `communicationFingerprint` -> field of `Fingerprint`."""

BESIDE = {
    "classHash": "class_hash",
    "kinHash": "kin_hash",
    "nodeHash": "node_hash",
    "nicOrder": "nic_order",
    "settings": "settings",
}

DEVICE_FIELDS = {
    "model": "model",
    "linkLayer": "link_layer",
    "rateGbps": "rate_gbps",
    "firmware": "firmware",
    "count": "count",
}

HASH = "fingerprintHash"
SECTIONS = "sections"
MADE_FROM = "madeFrom"
_ITSELF = ("schema", HASH, SECTIONS)


def to_document(fingerprint: Fingerprint) -> dict[str, Any]:
    """Plain values of YAML and JSON, in the order in which they are written."""
    said = {name: encode(getattr(fingerprint, field)) for name, field in FINGERPRINT_FIELDS.items()}
    devices = fingerprint.network_device_set
    if not isinstance(devices, Unknown):
        said["networkDeviceSet"] = [
            {name: getattr(device, field) for name, field in DEVICE_FIELDS.items()} for device in devices
        ]
    taken = fingerprint.taken_at if math.isfinite(fingerprint.taken_at) else None  # captured text has no time
    body: dict[str, Any] = {"host": fingerprint.host, "takenAt": taken, "communicationFingerprint": said}
    body |= {name: encode(getattr(fingerprint, field)) for name, field in BESIDE.items()}
    body[MADE_FROM] = encode(fingerprint.made_from)
    sections = sections_of(body)
    return {"schema": SCHEMA, HASH: hash_of(sections), **body, SECTIONS: sections}


def sections_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each part of a document but of the hashes themselves; `madeFrom` part by part."""
    found = {name: digest(value) for name, value in document.items() if name not in (*_ITSELF, MADE_FROM)}
    made_from = document.get(MADE_FROM)
    if isinstance(made_from, Mapping):
        found |= {f"{MADE_FROM}/{name}": digest(value) for name, value in made_from.items()}
    return found


def hash_of(sections: Mapping[str, Any]) -> str:
    """`fingerprintHash`: over the hashes of the parts."""
    return digest([SCHEMA, dict(sections)])


def encode(value: Any) -> Any:
    """Plain values with Unknown leaves -> plain values."""
    if isinstance(value, Unknown):
        return {UNKNOWN: value.reason}
    if isinstance(value, Mapping):
        return {_ESCAPE + key if key.lstrip(_ESCAPE) == UNKNOWN else key: encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    return value


def decode(value: Any) -> Any:
    """What `encode` made, back."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(UNKNOWN), str):
            return Unknown(value[UNKNOWN])
        return {
            key[1:] if key.startswith(_ESCAPE) and key.lstrip(_ESCAPE) == UNKNOWN else key: decode(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [decode(one) for one in value]
    return value


def device_of(raw: Mapping[str, Any]) -> NetworkDevice:
    """Of an entry whose types were checked."""
    return NetworkDevice(**{field: raw.get(name) for name, field in DEVICE_FIELDS.items()})  # type: ignore[arg-type]
