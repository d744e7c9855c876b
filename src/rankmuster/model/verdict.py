"""The verdict, schema `rankmuster.verdict/1`: fields may be added, never renamed."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.model.fault import (
    Boundary,
    Confidence,
    FaultClass,
    Phase,
    Progress,
    Role,
    Scope,
    Subkind,
    SuspectKind,
)
from rankmuster.model.plain_json import called
from rankmuster.model.plane import Plane, PlaneState

SCHEMA = "rankmuster.verdict/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What time the evidence covers, in unix seconds; null where no plane carries a clock."""

    start: float | None = field(default=None, metadata=called("from"))
    end: float | None = field(default=None, metadata=called("to"))
    fault_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Who is named, and why. Everything that is not known is null. `link`: an adapter, or the two ends of a path."""

    kind: SuspectKind
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    gpu: int | str | None = None
    pod: str | None = None
    link: str | None = None
    role: Role
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDivergence:
    """The first operation of a group that not every member entered alike. `op` has no backend prefix."""

    group: str | None = None
    members: tuple[int, ...] = ()
    sequence: int | None = None
    op: str | None = None
    missing: tuple[int, ...] = ()
    entered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord:
    """What a detector concluded, with references to the observations it rests on (`file#line` or `file#sequence`)."""

    detector: str
    statement: str
    evidence: tuple[str, ...] = ()
    plane: Plane | None = None
    led_to_verdict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRecord:
    plane: Plane
    state: PlaneState
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    boundary: Boundary
    steps: tuple[str, ...] = ()
    do_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer of one diagnosis; as JSON by `verdict_json`, where `class_` is `class` and `schema_` is `schema`."""

    schema_: str = SCHEMA
    instance: str | None = None
    deployment: str | None = None
    incarnation: str | None = None
    window: Window = Window()
    progress: Progress = Progress.UNKNOWN
    class_: FaultClass
    subclass: Subkind | None = None
    confidence: Confidence | None = None
    scope: Scope | None = None
    phase: Phase | None = None
    summary: str = ""
    suspects: tuple[Suspect, ...] = ()
    suspect_hosts: tuple[str, ...] = ()
    first_divergence: FirstDivergence | None = None
    findings: tuple[FindingRecord, ...] = ()
    planes: tuple[PlaneRecord, ...] = ()
    recovery: Recovery = Recovery(boundary=Boundary.NONE)
    would_decide: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def named(self) -> dict[int, Role]:
        """The ranks it names, culprits and suspects."""
        return {
            suspect.rank: suspect.role
            for suspect in self.suspects
            if suspect.rank is not None and suspect.role in (Role.CULPRIT, Role.SUSPECT)
        }

    @property
    def exit_status(self) -> int:
        """0 healthy, 1 a fault was found, 2 inconclusive or blind (DESIGN, "The verdict")."""
        if self.class_ is FaultClass.HEALTHY:
            return 0
        return 2 if self.class_ in (FaultClass.INCONCLUSIVE, FaultClass.BLIND) else 1
