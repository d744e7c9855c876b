"""What has changed about a node or a fleet since its baseline was taken (schema `rankmuster.drift/1`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.fingerprint import Change
from rankmuster.model.history import ChangePoint

SCHEMA = "rankmuster.drift/1"


class DriftKind(str, Enum):
    """What drifted."""

    TOPOLOGY = "topology"
    VERSION = "version"
    NIC = "nic"
    SETTING = "setting"  # device configuration and NCCL_* values
    CHOICE = "choice"  # algorithm, protocol, channels, transports
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    DISPERSION = "dispersion"  # between ranks


class DriftScope(str, Enum):
    """How many drifted: one cause of many nodes has to be stopped, one of a node mended."""

    NODE = "node"
    SYSTEMATIC = "systematic"  # many nodes of a class at once: stop the rollout


@dataclass(frozen=True, slots=True)
class DriftFinding:
    """One drift. `size`: relative change (-0.1: a tenth slower or narrower), None where it is no number.

    `since`: unix seconds of the first run that shows it. `nodes`: host names, or node hashes where unknown.
    """

    kind: DriftKind
    scope: DriftScope
    class_hash: str
    nodes: tuple[str, ...]
    statement: str
    effect: str
    size: float | None = None
    since: float | None = None
    change: Change | None = None
    point: ChangePoint | None = None


@dataclass(frozen=True, slots=True)
class DriftReport:
    """`baseline_applies`: whether results may still be compared with the old baseline; if not, `regenerate` says what
    is to be measured anew, and `why` which change did it. `unknown`: what could not be compared, with the reason; it
    leaves the answer open. `notes`: what could not be and decides nothing, and losses that are over."""

    nodes: int
    classes: tuple[str, ...]
    findings: tuple[DriftFinding, ...]
    baseline_applies: bool
    regenerate: tuple[str, ...]
    why: tuple[str, ...]
    unknown: tuple[str, ...]
    stop_rollout: bool
    notes: tuple[str, ...] = ()
