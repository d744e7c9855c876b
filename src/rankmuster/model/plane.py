"""The planes of evidence, and the three things a plane can do: speak, be silent, be blind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Plane(str, Enum):
    """One source of evidence. The names are those of the verdict's schema."""

    TOPOLOGY = "topology"
    RAS = "ras"
    FLIGHT = "flight"
    NCCL_LOG = "nccl-log"
    FRAMEWORK_LOG = "framework-log"
    KERNEL = "kernel"
    HARDWARE = "hardware"
    ENGINE = "engine"
    PLATFORM = "platform"


class PlaneState(str, Enum):
    """`silent`: should have spoken and did not. `blind`: cannot see this kind of event or traffic."""

    SPOKE = "spoke"
    SILENT = "silent"
    BLIND = "blind"


@dataclass(frozen=True, slots=True)
class PlaneReport:
    """What one plane did in this diagnosis, with the reason when it did not speak."""

    plane: Plane
    state: PlaneState
    note: str
