"""What the history gives back that is no model value of its own: documents with the facts they are found by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KinClass:
    """A class with the same hardware and software. `runs`: COMPLETE ones of the profile, from `nodes` nodes."""

    class_hash: str
    settings: Mapping[str, str]
    runs: int
    nodes: int


@dataclass(frozen=True, slots=True)
class StoredFingerprint:
    """A fingerprint as it was stored. Hashes that were not known are None. `document`: the file's bytes, unchanged,
    for `evidence.fingerprint_file.read_fingerprint`. `taken_at`: unix seconds."""

    host: str | None
    taken_at: float
    node_hash: str | None
    class_hash: str | None
    kin_hash: str | None
    topology_hash: str | None
    document: bytes
    gpu_model: str | None = None
    gpu_count: int | None = None


@dataclass(frozen=True, slots=True)
class StoredAdmission:
    """An admission as it was stored. `decision`: the word; `document`: its JSON (`rankmuster.admission/1`), unchanged;
    times in unix seconds."""

    hash: str
    decision: str
    nodes: tuple[str, ...]
    class_hash: str | None
    profile: str
    started_at: float
    ended_at: float
    document: bytes


@dataclass(frozen=True, slots=True)
class ClassCount:
    """How much the history holds of one class and profile. `states`: runs by state; times in unix seconds."""

    class_hash: str
    kin_hash: str
    settings: Mapping[str, str]
    profile: str
    nodes: int
    states: Mapping[str, int]
    first: float
    last: float
    open_changes: int
