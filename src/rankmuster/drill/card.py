"""From what was drilled to a row of the score card: what had to come back, what a verdict says, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankmuster.drill.faults import Fault
from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import MAJORITY, Naming, Truth, culprits_of
from rankmuster.model.drill_run import DrillBackend, DrillRun, Kind
from rankmuster.model.drill_score import BEFORE, DETECTED_SECONDS, bars
from rankmuster.model.fault import Phase


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the job that is drilled. `backend`: None for a user's own, of which nobody has said it. `culprit`: the rank
    that has the fault."""

    backend: Backend | None
    ranks: int
    culprit: int
    graph: bool = False

    @property
    def word(self) -> DrillBackend:
        """As the card has it."""
        if self.backend is None:
            return "own"
        return "nccl" if self.backend is Backend.NCCL else "gloo"


def blank(name: str, kind: Kind, shape: Shape, *, why: str = "") -> DrillRun:
    """A row in which nothing has happened yet. What nothing is wrong with counts as made."""
    return DrillRun(
        name=name,
        kind=kind,
        why=why,
        backend=shape.word,
        ranks=shape.ranks,
        graph=shape.graph,
        phase="serving",
        expected_classes=(),
        expected_subclasses=(),
        expected_culprit=None,
        naming="nobody",
        most_seconds=DETECTED_SECONDS,
        made=kind == "control",
        detected=False,
        detected_by=None,
        detected_seconds=None,
        said_class=None,
        said_subclass=None,
        culprits=(),
        named_by=None,
        named_seconds=None,
        class_right=None,
        culprit_right=None,
        culprit_wrong=False,
        evidence_saved=None,
        evidence_first=None,
        bundle=None,
        bundle_said=None,
        planes={},
        service_back=None,
        back_seconds=None,
        budget_seconds=None,
        again=None,
        alarms=(),
        incidents=0,
        wrongs=(),
    )


def blank_fault(fault: Fault, truth: Truth, shape: Shape) -> DrillRun:
    """The row of a fault, with what is right to say of it."""
    naming = truth.naming
    if truth.majority and shape.ranks < MAJORITY and naming is Naming.MUST:
        naming = Naming.MAY
    graph = shape.graph or fault.graph
    return replace(
        blank(fault.name, "fault", replace(shape, graph=graph)),
        phase="init" if fault.phase is Phase.INIT else "serving",
        expected_classes=tuple(one.value for one in truth.classes),
        expected_subclasses=tuple(one.value for one in truth.subkinds),
        expected_culprit=None if naming is Naming.NOBODY else shape.culprit,
        naming=naming.value,
        most_seconds=fault.most_seconds,
    )


def said_of(verdict: Mapping[str, Any]) -> str:
    """What a verdict (as JSON) comes to, in words that two of them can be compared by."""
    kind = ": ".join(str(verdict[key]) for key in ("class", "subclass") if verdict.get(key))
    culprits = ", ".join(map(str, culprits_of(verdict))) or "nobody"
    return f"{kind or 'nothing'}; culprit {culprits}"


def with_verdict(run: DrillRun, verdict: Mapping[str, Any]) -> DrillRun:
    """The row with what a verdict (as JSON) says, and what its planes did."""
    class_, subclass = verdict.get("class"), verdict.get("subclass")
    planes = verdict.get("planes") or ()
    states = {str(one.get("plane")): str(one.get("state")) for one in planes if isinstance(one, dict)}
    said = with_said(run, str(class_), str(subclass) if subclass else None, culprits_of(verdict))
    return replace(said, planes=states)


def with_said(run: DrillRun, class_: str, subclass: str | None, culprits: tuple[int, ...]) -> DrillRun:
    """The row with class and culprits, and whether they are right."""
    kind_right = not run.expected_subclasses or subclass in run.expected_subclasses
    wrong = any(one != run.expected_culprit for one in culprits)
    nobody_right = run.naming != "must"
    return replace(
        run,
        said_class=class_,
        said_subclass=subclass,
        culprits=culprits,
        class_right=class_ in run.expected_classes and kind_right,
        culprit_right=not wrong and (bool(culprits) or nobody_right),
        culprit_wrong=wrong,
    )


def with_bars(run: DrillRun, more: tuple[str, ...] = ()) -> DrillRun:
    """The row with all that is wrong; `more`: what is known besides."""
    alarms = (f"{BEFORE}{alarm}" for alarm in run.alarms)
    return replace(run, wrongs=tuple(dict.fromkeys((*run.wrongs, *more, *alarms, *bars(run)))))
