"""What the checklist is decided on, as frozen values: gathered by `gate.sources`, made by hand in tests.

What could not be had stands as `Unknown` with the reason: an item that needs it is unknown, and no pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.environment.calibration import Calibration
from rankmuster.environment.check import Report
from rankmuster.gate.deployed import Workload
from rankmuster.incident.budget import Budget
from rankmuster.model.benchmark import Operation, Profile
from rankmuster.model.drill_card import ScoreCard
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.release import Proof
from rankmuster.model.unknown import Unknown

MOST_AGE_DAYS = 90.0
"""Of a drill and of a recording, by default: drivers and images change within a quarter."""


@dataclass(frozen=True, slots=True)
class Span:
    """A group of ranks as it was recorded: how many, and on which hosts (sorted)."""

    group: str
    ranks: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankSeen:
    """A rank of the recording. `host`: as whoever started it names it. `ras`: some sound RAS reply names its process.
    `gpu`: UUID of its GPU, where that is known."""

    rank: int
    host: str | None
    pid: int | None
    ras: bool
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """What a bundle of the release under its own load tells. `taken_at`: unix seconds of its last look.

    `environment`: what its processes had set, None where it does not say. `profile`: computed from its dumps; `notes`:
    what that leaves out. `replies`: sound RAS replies; `foreign`: processes in them that are no rank of the instance.
    """

    instance: str | None
    deployment: str | None
    incarnation: str | None
    taken_at: float | None
    nccl: str | None
    environment: Mapping[str, str] | None
    profile: Profile | Unknown
    notes: tuple[str, ...]
    spans: tuple[Span, ...]
    ranks: tuple[RankSeen, ...]
    replies: int
    foreign: int
    calibration: Calibration | Unknown
    proof: Proof


@dataclass(frozen=True, slots=True)
class NodeInUse:
    """A node that the release runs on, by its fingerprint."""

    fingerprint: Fingerprint
    proof: Proof

    @property
    def name(self) -> str:
        """Its host, or the file it was read from."""
        return self.fingerprint.host or self.proof.name


@dataclass(frozen=True, slots=True, order=True)
class Measured:
    """What some complete run of a class measured. `ranks`: over how many GPUs."""

    operation: Operation
    size_bytes: int
    ranks: int
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class ClassPast:
    """What the history holds of one class: stored fingerprints, what complete runs measured, and how many of those."""

    fingerprints: int
    measured: frozenset[Measured]
    runs: int
    newest: float = 0.0  # start of the newest of them, unix seconds


@dataclass(frozen=True, slots=True)
class Together:
    """An admission of several nodes at once. `passed`: with this decision."""

    nodes: frozenset[str]
    passed: bool
    at: float


@dataclass(frozen=True, slots=True)
class Past:
    """`place`: of the history, without a password. `admitted`: host -> the newest decision of the node alone."""

    place: str
    classes: Mapping[str, ClassPast]
    together: tuple[Together, ...] = ()
    admitted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drill:
    """A score card, with where it was read."""

    card: ScoreCard
    proof: Proof


@dataclass(frozen=True, slots=True)
class Runbook:
    """How the release's instance is brought back, from the settings of `incident` or a cluster's policy.

    `has`: roles (traffic, group, node, retest) that something could act for; `acts`: those that are enabled. `probe`:
    a rebuilt instance is asked before it gets traffic. `incident_profile`: it is started once with the logs of an
    incident. `objections`: what in the settings could never work. `pairs`: a suspect is also tested with a good node.
    """

    instance: str
    budget: Budget
    has: frozenset[str]
    acts: frozenset[str]
    probe: bool
    incident_profile: bool
    proof: Proof
    objections: tuple[str, ...] = ()
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it. `instance`: the name that the recording has to have. `now`: unix seconds. `expected`: topology hashes
    that the release is meant for; empty: those that its nodes agree on."""

    release: str
    instance: str
    now: float
    workload: Workload
    digest: str | None
    environment: Report
    recording: Recording | Unknown
    nodes: tuple[NodeInUse, ...] | Unknown
    past: Past | Unknown
    drills: tuple[Drill, ...] | Unknown
    runbook: Runbook | Unknown
    expected: tuple[str, ...] = ()
    most_age_days: float = MOST_AGE_DAYS
