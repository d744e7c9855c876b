"""Documents as the history gives them back, with the facts that they are found by."""

from __future__ import annotations

from dataclasses import dataclass


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
