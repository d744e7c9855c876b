"""What a decision is made from: the verdict, the opening, what is known besides, and what follows from them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rankmuster.incident.config import IncidentConfig, RecoveryRow
from rankmuster.incident.machine.parts import COMES_BACK
from rankmuster.incident.suspect_nodes import SuspectNodes
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress
from rankmuster.model.incident import OpenedBy, Opening
from rankmuster.model.verdict import Verdict

MOVES = (Progress.ADVANCING, Progress.IDLE)

STRENGTH = {None: 0, Confidence.POSSIBLE: 1, Confidence.LIKELY: 2, Confidence.CONFIRMED: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known besides the verdict. `nodes`: host -> node, where they differ. `rank_hosts`: rank -> host.

    `progress`: what the watch says now; None: what the opening said. `elsewhere`: the group can be started on other
    nodes. `group_ended`: a look says that all its processes are gone. `suspected_before`: node -> where and when a
    transport stall suspected it lately (`past_suspects`). `systematic`: why a whole class of nodes is thought to drift.
    `approved`: the boundary that an operator named or confirmed (`Incident.approved_boundary`); `approved_by`: who.
    """

    nodes: Mapping[str, str] = field(default_factory=dict)
    rank_hosts: Mapping[int, str] = field(default_factory=dict)
    progress: Progress | None = None
    elsewhere: bool = False
    group_ended: bool = False
    suspected_before: Mapping[str, str] = field(default_factory=dict)
    systematic: str | None = None
    approved: Boundary | None = None
    approved_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideSettings:
    """As `IncidentConfig` has them."""

    rows: tuple[RecoveryRow, ...] = ()
    least_confidence: Confidence = Confidence.LIKELY
    undecided: Literal["hold", "rebuild"] = "hold"
    incident_profile: bool = True


def settings_of(config: IncidentConfig) -> DecideSettings:
    return DecideSettings(
        rows=config.recovery,
        least_confidence=config.least_confidence,
        undecided=config.undecided,
        incident_profile=config.incident_profile,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at. `gone`: nothing of the group lives, so nothing can be killed that works."""

    verdict: Verdict
    opening: Opening
    facts: Facts
    settings: DecideSettings
    progress: Progress
    boundary: Boundary
    table: Boundary
    row: str | None
    suspects: SuspectNodes

    @property
    def gone(self) -> bool:
        ended = self.opening.by is OpenedBy.ENDED and self.progress not in MOVES
        return ended or self.facts.group_ended

    @property
    def weak(self) -> bool:
        return STRENGTH[self.verdict.confidence] < STRENGTH[self.settings.least_confidence]

    @property
    def lost(self) -> bool:
        """A process or device is gone, and does not come back by itself as what was frozen does."""
        verdict = self.verdict
        if verdict.class_ is not FaultClass.PROCESS_OR_DEVICE_LOST or verdict.subclass in COMES_BACK:
            return False
        return not self.weak

    @property
    def slow(self) -> bool:
        """Whether it works, slowly: as it was opened, or as is seen by now."""
        if self.gone or self.progress is Progress.STOPPED:
            return False
        return self.opening.by is OpenedBy.SLOW or (self.progress is Progress.SLOW and not self.lost)

    @property
    def only_slowness(self) -> bool:
        """Whether the verdict explains a slow group, and this one has stopped: then nobody knows yet why."""
        slowness = self.verdict.class_ is FaultClass.PERFORMANCE_DEGRADATION and self.row is None
        return slowness and self.progress is Progress.STOPPED and not self.gone

    @property
    def named(self) -> str:
        verdict = self.verdict
        kind = f"/{verdict.subclass.value}" if verdict.subclass is not None else ""
        sure = f", {verdict.confidence.value}" if verdict.confidence is not None else ""
        return f"{verdict.class_.value}{kind}{sure}"
