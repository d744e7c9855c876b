"""One run of a drill: a fault that was made, a control that had to stay quiet, or one that could not be made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["fault", "control", "left_out"]
DrillBackend = Literal["gloo", "nccl", "own"]
DrillPhase = Literal["init", "serving"]
NamingRule = Literal["must", "may", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRun:
    """What had to come back, and what came. `name`: of the fault or control. `why`: of what was left out, else empty.

    `backend`: "own" for a user's job, of which the drill does not know how its ranks talk. `expected_classes`,
    `expected_subclasses`: any of them is right, none given leaves it open. `expected_culprit`: the rank that had the
    fault. `naming`: it must be named; or it, or nobody; or nobody. `most_seconds`: within which this fault can be told;
    longer than `drill_score.DETECTED_SECONDS` where its nature takes longer. `made`: whether the fault was made; a run
    in which something broke before that proves nothing.

    `detected_by`: what told it first ("watch", "group", "collect"), `detected_seconds` after the fault. `said_class`,
    `said_subclass`, `culprits`: of the verdict, or of the watch where that is what tells this fault; `named_by`
    ("verdict", "watch") was the first to say all of it, `named_seconds` after the fault. `culprit_wrong`: somebody else
    was named. `evidence_saved`: a whole bundle is there, by its path `bundle` from the card's folder, and `bundle_said`
    is the verdict on it in words; `evidence_first`: all of it before anything was ended. `planes`: plane to spoke,
    silent or blind, as the verdict has them. `service_back`: a client had a good token again, `back_seconds` after the
    fault, of at most `budget_seconds`. `again`: the bundle, diagnosed again offline, gave the same. `alarms`: what the
    watch told that was no fault; `incidents`: how many the runbook opened. `wrongs`: all that is not as it should be.

    None stands where something does not apply, or did not come.
    """

    name: str
    kind: Kind
    why: str
    backend: DrillBackend
    ranks: int
    graph: bool
    phase: DrillPhase
    expected_classes: tuple[str, ...]
    expected_subclasses: tuple[str, ...]
    expected_culprit: int | None
    naming: NamingRule
    most_seconds: float
    made: bool
    detected: bool
    detected_by: str | None
    detected_seconds: float | None
    said_class: str | None
    said_subclass: str | None
    culprits: tuple[int, ...]
    named_by: str | None
    named_seconds: float | None
    class_right: bool | None
    culprit_right: bool | None
    culprit_wrong: bool
    evidence_saved: bool | None
    evidence_first: bool | None
    bundle: str | None
    bundle_said: str | None
    planes: Mapping[str, str]
    service_back: bool | None
    back_seconds: float | None
    budget_seconds: float | None
    again: bool | None
    alarms: tuple[str, ...]
    incidents: int
    wrongs: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether all was as it should be; what was left out is not."""
        return self.kind != "left_out" and self.made and not self.wrongs
