"""A GPU's NVLinks as NVML told them: state, speed, version, and what stands at the other end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.evidence.pci import address
from rankmuster.model.node_path import NvLink
from rankmuster.model.unknown import Unknown

MEGA = 1000.0
"""NVML's speed is MB/s (NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON), the model's GB/s."""


def read_links(said: Sequence[Mapping[str, Any]], addresses: Mapping[int, str]) -> tuple[NvLink, ...]:
    """By link number; () where NVML was asked and knows of none. `addresses`: of the node's GPUs."""
    by_address = {place: index for index, place in addresses.items()}
    return tuple(
        NvLink(
            link=int(entry["link"]),
            state=str(entry["state"]) if entry.get("state") else Unknown("NVML does not tell the link's state"),
            speed_gbps=_speed(entry),
            version=str(entry["version"]) if entry.get("version") else Unknown("NVML does not tell the version"),
            remote=_remote(entry, by_address),
        )
        for entry in sorted(said, key=lambda entry: int(entry["link"]))
    )


def _speed(entry: Mapping[str, Any]) -> float | Unknown:
    speed = entry.get("speed_mb_per_s")
    if isinstance(speed, (int, float)) and speed > 0:
        return float(speed) / MEGA
    return Unknown(f"NVML does not tell the speed of a link that is {entry.get('state')}")


def _remote(entry: Mapping[str, Any], by_address: Mapping[str, int]) -> str | Unknown:
    """What NCCL takes it for: an address that no device has, as virtual machines show, is a switch
    (src/graph/xml.cc: `NVLink target ... not visible, assuming NVSwitch`)."""
    kind, place = entry.get("remote_type"), address(str(entry.get("remote") or ""))
    if kind == "switch":
        return "switch"
    if place is not None and place in by_address:
        return f"gpu:{by_address[place]}"
    if kind == "ibm_npu":
        return "cpu"
    if kind == "gpu":
        return Unknown(f"the link leads to a GPU at {entry.get('remote')} that is not visible here")
    if entry.get("remote"):
        return "switch"
    return Unknown("NVML does not tell where the link leads")
