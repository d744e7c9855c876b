"""NodeAdmission: one a node and fingerprint class; the result and its reason."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field

from rankmuster.kube.crd.base import Condition, Shape


class Phase(str, Enum):
    """PENDING: not begun. TESTING: a Job is on it. REFUSED: it may not join. ERROR: it could not be tested, which is no
    pass. RELEASED: by a person. OUTDATED: the node has changed since, another admission follows."""

    PENDING = "Pending"
    TESTING = "Testing"
    PASSED = "Passed"
    PROVISIONAL = "Provisional"
    REFUSED = "Refused"
    ERROR = "Error"
    RELEASED = "Released"
    OUTDATED = "Outdated"


class Release(Shape):
    """A person lets the node in whatever was measured."""

    by: Annotated[str, Field(max_length=253)]
    reason: Annotated[str, Field(max_length=1024)] = ""


class AdmissionSpec(Shape):
    """`watched`: hash over what was seen of the node from outside (labels, kernel, driver, GPUs, agent's fingerprint);
    another one is another admission. `trigger`: why it is tested. `again`: a number that a person raises to have it
    tested anew. `release`: see there."""

    node: Annotated[str, Field(max_length=253)]
    node_uid: Annotated[str, Field(max_length=64)]
    watched: Annotated[str, Field(max_length=64)]
    trigger: Annotated[str, Field(max_length=1024)] = ""
    again: Annotated[int, Field(ge=0)] = 0
    release: Release | None = None


class Paired(Shape):
    """One measurement with a known good node. `busbw`: GB/s, None where there is none, and `reason` says why."""

    with_node: Annotated[str, Field(max_length=253)]
    busbw: Annotated[float, Field(ge=0)] | None = None
    reason: Annotated[str, Field(max_length=512)] = ""
    rail: Annotated[int, Field(ge=0)] | None = None


class AdmissionStatus(Shape):
    """`class_`: hash of the fingerprint class that the Job saw. `decision`: the record's own word (`pass`, `fail`,
    `provisional`, `error`). `record`: its seal. `with_node`: the known good one of the pair that is measured now;
    `pairs`: what was measured, `pair_attempts`: Jobs of pairs that were begun. `conditions`: Tested, Admitted,
    Tainted."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    phase: Phase = Phase.PENDING
    attempts: int = 0
    again: int = 0
    job: Annotated[str, Field(max_length=253)] | None = None
    pair_job: Annotated[str, Field(max_length=253)] | None = None
    with_node: Annotated[str, Field(max_length=253)] | None = None
    started_at: str | None = None
    ended_at: str | None = None
    class_: Annotated[str | None, Field(alias="class", max_length=128)] = None
    decision: Annotated[str, Field(max_length=32)] | None = None
    reasons: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    record: Annotated[str, Field(max_length=128)] | None = None
    pair_attempts: Annotated[int, Field(ge=0)] = 0
    pairs: Annotated[tuple[Paired, ...], Field(max_length=64)] = ()
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
