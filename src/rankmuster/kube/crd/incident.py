"""CommunicationIncident: one an incarnation. Its status is the runbook's timeline, told from the journal; its spec
is the place of an operator's word."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rankmuster.kube.crd.base import Condition, Shape
from rankmuster.model.fault import Boundary

MOST_TIMELINE = 150
"""Rows of a timeline: a rebuild with two gateways and four fences has about 60. The journal has all of them."""

MOST_NOTE = 512


class Approval(Shape):
    """An operator's: the boundary that is to be rebuilt, and who says so."""

    boundary: Boundary
    by: Annotated[str, Field(max_length=253)]
    reason: Annotated[str, Field(max_length=1024)] = ""


class Abort(Shape):
    """Begin nothing new."""

    by: Annotated[str, Field(max_length=253)]
    reason: Annotated[str, Field(max_length=1024)] = ""


class PodOfIncident(Shape):
    name: Annotated[str, Field(max_length=253)]
    uid: Annotated[str, Field(max_length=64)]
    node: Annotated[str, Field(max_length=253)] | None = None


class IncidentSpec(Shape):
    """`incident`: its id in the journal. `incarnation`: the one that it is about. `pods`: at most 64 of them.
    `approve`, `abort`: written by people."""

    incident: Annotated[str, Field(max_length=64)]
    policy: Annotated[str, Field(max_length=253)]
    instance: Annotated[str, Field(max_length=253)]
    incarnation: Annotated[str, Field(max_length=128)] | None = None
    workload: Annotated[str, Field(max_length=320)]
    pods: Annotated[tuple[PodOfIncident, ...], Field(max_length=64)] = ()
    approve: Approval | None = None
    abort: Abort | None = None


class Row(Shape):
    """One event of the journal that people want to see."""

    at: str
    what: Annotated[str, Field(max_length=64)]
    step: Annotated[str, Field(max_length=32)] | None = None
    action: Annotated[str, Field(max_length=128)] | None = None
    ending: Annotated[str, Field(max_length=32)] | None = None
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""


class IncidentStatus(Shape):
    """`sequence`: of the newest event that is in it. `left_out`: rows of the middle that did not fit. `bundle`: where
    the evidence is; `uploaded`: and where a copy went. `conditions`: Open, EvidenceSaved, WaitsForApproval, Recovered,
    Seen."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    sequence: int = 0
    phase: Annotated[str, Field(max_length=32)] = ""
    outcome: Annotated[str, Field(max_length=32)] | None = None
    opened_at: str | None = None
    closed_at: str | None = None
    opened_by: Annotated[str, Field(max_length=32)] | None = None
    fault: Annotated[str | None, Field(alias="class", max_length=64)] = None
    subclass: Annotated[str, Field(max_length=64)] | None = None
    confidence: Annotated[str, Field(max_length=32)] | None = None
    boundary: Annotated[str, Field(max_length=32)] | None = None
    course: Annotated[str, Field(max_length=32)] | None = None
    suspects: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    fenced: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    bundle: Annotated[str, Field(max_length=1024)] | None = None
    uploaded: Annotated[str, Field(max_length=1024)] | None = None
    new_incarnation: Annotated[str, Field(max_length=128)] | None = None
    timeline: Annotated[tuple[Row, ...], Field(max_length=MOST_TIMELINE)] = ()
    left_out: int = 0
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
