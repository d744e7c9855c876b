"""What a release's communication is made of, and the record that lets it take traffic.

Records are links of a chain: each holds the hash of the one before it, so that a record that was changed, left out or
put in between is found (`gate.chain`). A record is never changed; a roll-back is a further record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA = "rankmuster.release/1"
CHECK_SCHEMA = "rankmuster.gate/1"


class Item(str, Enum):
    """The launch checklist, in the order in which it is read."""

    ARTEFACT = "artefact"
    FINGERPRINTS = "fingerprints"
    TOPOLOGY = "topology"
    BENCHMARKS = "benchmarks"
    RAS = "ras"
    RECORDER_DRILL = "recorder_drill"
    DRILL = "drill"
    LOGGING = "logging"
    RUNBOOK = "runbook"
    READMISSION = "readmission"
    CALIBRATION = "calibration"


class ItemState(str, Enum):
    """UNKNOWN: the evidence that would decide is not there; it is no pass. WAIVED: it did not pass, and its owner has
    taken that on until a day."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    UNKNOWN = "unknown"
    WAIVED = "waived"

    @property
    def lets_through(self) -> bool:
        """Whether a release may take traffic with it."""
        return self in (ItemState.PASS, ItemState.WAIVED)


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable of the engine's processes, exactly as it is set.

    `value`: None where `reference` says where it comes from instead: the entry of a container's `env` as JSON
    (`{"valueFrom": ...}`). `expands`: Kubernetes puts other variables into the value (`$(NAME)`).
    """

    name: str
    value: str | None = None
    reference: str | None = None
    expands: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One engine's container of a release: a leader's and its workers' are two. `where`: in words, `place`: its object
    and where it stands there ("Deployment/llm:spec/template/spec/containers/main"), by which it is found again.

    `digest`: of the image, `sha256:...`; None where nothing is started from one, or it was not said. `settings`: in
    their order. `shape`: what else of it changes how ranks talk ("GPUs", "command": a hash), which is compared and not
    put back. `dark`: what else sets variables, which nobody could see (a ConfigMap that was not given, a Secret).
    """

    where: str
    place: str
    image: str | None
    digest: str | None
    settings: tuple[Setting, ...]
    shape: Mapping[str, str] = field(default_factory=dict)
    dark: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """The communication artefact of a release: everything of it that changes how its ranks talk.

    `versions`: of torch, nccl, cuda, driver and the engine, by name. `topology_hashes`, `class_hashes`: of the node
    models that it was proven on, sorted. `profile`: key of the benchmark profile computed from its own load.
    """

    name: str
    versions: Mapping[str, str]
    topology_hashes: tuple[str, ...]
    class_hashes: tuple[str, ...]
    profile: str | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Waiver:
    """An owner's word that an item need not pass until `until` (unix seconds). `release`: None for every release."""

    item: Item
    owner: str
    reason: str
    until: float
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence that an item rests on: what it is called, and the sha256 of what was read."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One item's answer. `todo`: what makes it pass, one thing a line; empty where it passed. `details`: what was
    found, one thing a line. `waiver`: that which let it through. `note`: of a waiver that did not, and why. `firm`: why
    nobody can waive this answer; empty where an owner may.
    """

    item: Item
    state: ItemState
    statement: str
    todo: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    waiver: Waiver | None = None
    note: str = ""
    firm: str = ""


@dataclass(frozen=True, slots=True)
class Checklist:
    """All items, in order. `made_at`: unix seconds; `version`: of this program."""

    release: str
    made_at: float
    version: str
    results: tuple[ItemResult, ...]

    @property
    def passed(self) -> bool:
        """Whether the release may take traffic: every item, by proof or by waiver."""
        return bool(self.results) and all(one.state.lets_through for one in self.results)

    @property
    def failed(self) -> tuple[ItemResult, ...]:
        """Items that are known not to be as they should."""
        return tuple(one for one in self.results if one.state is ItemState.FAIL)

    @property
    def open(self) -> tuple[ItemResult, ...]:
        """Items of which nobody can tell."""
        return tuple(one for one in self.results if one.state is ItemState.UNKNOWN)

    @property
    def earliest_expiry(self) -> float | None:
        """When the first waiver that it rests on ends, unix seconds."""
        return min((one.waiver.until for one in self.results if one.waiver is not None), default=None)


class RecordKind(str, Enum):
    """APPROVAL: the release may take traffic. SERVED: how it served, as a canary measured it. ROLLBACK: an earlier
    approval counts again, what came after it is bad."""

    APPROVAL = "approval"
    SERVED = "served"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """One link of a release's chain. `number`: from 1. `previous`: hash of the record before it, None for the first.

    `artefact`, `checklist`: of an approval. `serving`: of SERVED, what a canary measured (`rankmuster.canary/1`), which
    later releases are held against. `to`: of a roll-back, the hash of the approval that counts again; of SERVED, of the
    one that served. `hash`: `sha256:...` over the canonical JSON of everything else.
    """

    kind: RecordKind
    release: str
    number: int
    made_at: float
    by: str
    reason: str
    previous: str | None = None
    artefact: Artefact | None = None
    checklist: Checklist | None = None
    serving: Mapping[str, Any] | None = None
    to: str | None = None
    hash: str = field(default="")
