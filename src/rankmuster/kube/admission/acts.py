"""What a step of an admission asks for. Each is done once or found done: it may be asked for again after a crash."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.kube.admission.result import Result
from rankmuster.kube.crd.admission import AdmissionStatus


@dataclass(frozen=True, slots=True)
class SetTaint:
    """The node is kept from new pods, by this admission."""

    why: str


@dataclass(frozen=True, slots=True)
class LiftTaint:
    """Our taint, whoever set it, and nothing else. `why`: what allows it."""

    why: str


@dataclass(frozen=True, slots=True)
class CreateJob:
    """`good`: the other node of a pair, None of a Job on the node alone."""

    name: str
    good: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """The Job of that name, where it is of this admission."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class RecordResult:
    """Into the history, before anything follows from it."""

    result: Result


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Somebody has put our taint on a node that was admitted: it is tested again. Done only where that still holds."""

    trigger: str


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The whole status, bound to the resourceVersion that the step has seen."""

    status: AdmissionStatus


Act = SetTaint | LiftTaint | CreateJob | DeleteJob | RecordResult | AskAgain | SetStatus


def told(act: Act, node: str) -> str:
    """What it would do, for one line."""
    if isinstance(act, SetTaint):
        return f"taint node {node} ({act.why})"
    if isinstance(act, LiftTaint):
        return f"lift the taint of node {node} ({act.why})"
    if isinstance(act, CreateJob):
        return f"create Job {act.name}" + (f" on {node} and {act.good}" if act.good else f" on {node}")
    if isinstance(act, DeleteJob):
        return f"delete Job {act.name} ({act.why})"
    if isinstance(act, RecordResult):
        return f"store the result of {node} in the history: {act.result.decision.value}"
    if isinstance(act, AskAgain):
        return f"test node {node} again ({act.trigger})"
    return f"say {act.status.phase.value} of node {node}"
