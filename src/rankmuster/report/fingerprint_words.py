"""Hashes and values of fingerprints as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rankmuster.model.fingerprint import Fingerprint, NetworkDevice
from rankmuster.model.unknown import Unknown

SHORT = 12
"""Hex digits of a hash that are shown: 48 bits tell a thousand nodes apart a million times over."""


def short(value: str | Unknown) -> str:
    """`sha256:970bdbe7c79a`, or that it is unknown."""
    if isinstance(value, Unknown):
        return "unknown"
    kind, colon, digits = value.partition(":")
    return f"{kind}:{digits[:SHORT]}" if colon else value[:SHORT]


def device(one: NetworkDevice) -> str:
    """`8 x MT4129, InfiniBand 400 Gb/s, firmware 28.39.1002`."""
    rate = "rate not said" if one.rate_gbps is None else f"{one.rate_gbps:g} Gb/s"
    firmware = "" if one.firmware is None else f", firmware {one.firmware}"
    return f"{one.count} x {one.model}, {one.link_layer} {rate}{firmware}"


def value(one: Any) -> str:
    """Any value of a fingerprint in words."""
    if isinstance(one, Unknown):
        return "unknown"
    if isinstance(one, tuple):
        return ", ".join(device(each) if isinstance(each, NetworkDevice) else str(each) for each in one) or "none"
    return "none" if one is None else f"{one:g}" if isinstance(one, float) else str(one)


def unknown_parts(fingerprint: Fingerprint) -> list[tuple[str, str]]:
    """(part, reason) of everything unknown that the class depends on, each reason once with all of its parts."""
    fields: Iterable[tuple[str, Any]] = (
        ("image digest", fingerprint.image_digest),
        ("CUDA", fingerprint.cuda_version),
        ("NCCL", fingerprint.nccl_version),
        ("PyTorch", fingerprint.pytorch_version),
        ("engine", fingerprint.engine),
        ("engine version", fingerprint.engine_version),
        ("GPU model", fingerprint.gpu_model),
        ("GPU count", fingerprint.gpu_count),
        ("driver", fingerprint.driver),
        ("topology", fingerprint.topology_hash),
        ("network devices", fingerprint.network_device_set),
        ("NIC order", fingerprint.nic_order),
        *((f"setting {name}", setting) for name, setting in fingerprint.settings.items()),
    )
    reasons: dict[str, list[str]] = {}
    for name, one in fields:
        if isinstance(one, Unknown):
            reasons.setdefault(one.reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in reasons.items()]
