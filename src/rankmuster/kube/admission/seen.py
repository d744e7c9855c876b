"""What a step of an admission rests on: the NodeAdmission as it was read, and what was seen of the world. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.adapters.kube.job_look import JobLook
from rankmuster.baseline.pairs import PairResult
from rankmuster.kube.admission.result import Result
from rankmuster.kube.crd.admission import AdmissionStatus, Phase, Release
from rankmuster.model.kube import ADMISSION_TAINT, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One NodeAdmission. `created`: unix seconds. `facts`: what `watched` was made of, and what came to be known since.
    `after`: UID of the one that it follows. `served`: the node served before this one was begun. `trusted`: it is let
    in without a test."""

    name: str
    uid: str
    resource_version: str
    generation: int
    created: float
    node: str
    node_uid: str
    watched: str
    trigger: str = ""
    again: int = 0
    release: Release | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    served: bool = False
    trusted: bool = False
    status: AdmissionStatus = field(default_factory=AdmissionStatus)

    @property
    def phase(self) -> Phase:
        return self.status.phase

    @property
    def admitted(self) -> bool:
        """Whether the node may serve, as was last said."""
        return self.said("Admitted") == "True"

    def said(self, type_: str) -> str | None:
        """A condition's status; None where there is none."""
        return next((one.status for one in self.status.conditions if one.type == type_), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """`why`: of what is not allowed now; without figures that change from look to look."""

    allowed: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`job`, `pair`: those that the status names; None where it names none. `result`: of the ended one, judged;
    `unjudged`: why it cannot be judged now. `measured`: of an ended pair.

    `holders`: pods that hold GPUs of the node; None where nobody has looked. `good`: known good nodes that are idle,
    the best first; `any_good`: whether there is one of its kind at all, idle or not.

    `passed`: of a trusted node, the seal and first reason of a stored record that passed.

    `superseded`: why a younger admission of the node stands in its place; empty where none does. `unsettled`: who works
    on the node now. `quiet_since`: from when nothing of the node has changed, unix seconds.
    """

    job: JobLook | None = None
    pair: JobLook | None = None
    result: Result | None = None
    unjudged: str = ""
    measured: tuple[PairResult, ...] = ()
    holders: tuple[str, ...] | None = None
    good: tuple[str, ...] = ()
    any_good: bool = False
    superseded: str = ""
    passed: tuple[str, str] | None = None
    unsettled: str = ""
    quiet_since: float = 0.0
    may_taint: Permit = Permit()
    may_start: Permit = Permit()


def tainted(node: NodeView) -> bool:
    """Whether our taint is on it, whoever set it."""
    return any(one.key == ADMISSION_TAINT for one in node.taints)
