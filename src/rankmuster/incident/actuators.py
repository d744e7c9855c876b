"""What the runbook acts through. Each is a Protocol, implemented in `adapters`, where each is a real thing.

Rules for all of them:

- A call returns by its deadline with an `Answer`, whatever the world does, and raises nothing for expected trouble. The
  runbook abandons one that does not (`incident.act`), and looks again before it goes on.
- `look` changes nothing. It says UNKNOWN with the reason where it cannot see: absence of data is not absence.
- DONE means that the world was looked at and is as wanted, not that somebody said "ok".
- What is done already is DONE, with a note that says so: each may be repeated after a crash. Where repeating would do
  it a second time (start), the call is bound to an incarnation and an `operation` that is unique to the action.
- `would` says exactly what a call would send or run, one line each, without secrets. It asks nobody.

A Kubernetes readiness gate is a Traffic, a LeaderWorkerSet a Group, a taint a Node: nothing here knows of hosts,
sockets or pods beyond names.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import (
    Answer,
    GroupLook,
    NodeLook,
    NodeRetest,
    StartWish,
    TrafficLook,
)


class Verb(str, Enum):
    """What can be asked of actuators."""

    STOP_NEW = "stop_new"
    CUT = "cut"
    SET_WEIGHT = "set_weight"
    RESTORE = "restore"
    TERMINATE = "terminate"
    START = "start"
    FENCE = "fence"
    LIFT = "lift"
    RETEST = "retest"


class Traffic(Protocol):
    """One instance at one gateway (all processes of that gateway together). All calls may be repeated."""

    @property
    def name(self) -> str: ...

    def look(self, deadline: Deadline) -> TrafficLook: ...

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """No new requests; what runs goes on."""
        ...

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """Nothing gets through; what runs ends with an error that names `reason`, where the gateway can. The answer's
        data has `requests`: how many were hit, where it is known."""
        ...

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """So many percent of its own full weight. REFUSED where the gateway has no weights."""
        ...

    def restore(self, deadline: Deadline) -> Answer:
        """New requests come, at full weight."""
        ...

    def would(self, verb: Verb, *, percent: float | None = None) -> tuple[str, ...]: ...


class Group(Protocol):
    """The process group of one instance: it is ended whole and started whole."""

    @property
    def name(self) -> str: ...

    @property
    def elsewhere(self) -> bool:
        """Whether `start` can keep to other nodes (`StartWish.avoid`)."""
        ...

    def look(self, deadline: Deadline) -> GroupLook: ...

    def terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        """Ends every process of that incarnation, and sees that they are gone and GPU memory is free. Another
        incarnation is never touched: DONE, with a note. NODE where a process cannot be killed (data: `node`, `pids`).

        `incarnation` None: whatever runs now, if nobody knows one.
        """
        ...

    def start(self, after: str | None, operation: str, wish: StartWish, deadline: Deadline) -> Answer:
        """Starts a new incarnation (data: `incarnation`) where none runs; does not wait until it serves. DONE, with a
        note, where one other than `after` runs already: a second one is never started."""
        ...

    def would(
        self, verb: Verb, *, incarnation: str | None = None, wish: StartWish | None = None
    ) -> tuple[str, ...]: ...


class Node(Protocol):
    """Where nodes are kept from new work."""

    @property
    def name(self) -> str: ...

    def look(self, node: str, deadline: Deadline) -> NodeLook: ...

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        """Nothing new is placed there. One that others fenced stays theirs: DONE, with `data["others"]` true."""
        ...

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        """Lifts the fence if it is of this incident. One of others is REFUSED, one that is not there DONE."""
        ...

    def would(self, verb: Verb, node: str, incident: str, reason: str = "") -> tuple[str, ...]: ...


class Retest(Protocol):
    """Tests nodes that no instance uses."""

    @property
    def name(self) -> str: ...

    def test(
        self, nodes: tuple[str, ...], good: str | None, operation: str, deadline: Deadline, *, short: bool
    ) -> tuple[NodeRetest, ...]:
        """One result a node, in order. `good`: a node known to be good, to pair with. `short`: seconds, not minutes.

        A test that hangs is a FAIL; one that could not be begun is an ERROR.
        """
        ...

    def would(self, nodes: tuple[str, ...], good: str | None, *, short: bool) -> tuple[str, ...]: ...


class Evidence(Protocol):
    """Saves what there is to see of an instance before anything is killed."""

    @property
    def name(self) -> str: ...

    def collect(
        self,
        instance: str,
        incarnation: str | None,
        pids: tuple[int, ...],
        folder: str,
        deadline: Deadline,
        *,
        stopped: bool,
    ) -> Answer:
        """Takes a bundle into `folder` (data: `bundle`, its path). PARTIAL where only a part could be taken.

        `stopped`: it is known that the instance has stopped: then what may hurt a job that works may be asked.
        """
        ...

    def diagnose(self, bundle: str, folder: str, deadline: Deadline) -> Answer:
        """The verdict on it (data: `verdict`, a path; `class`...)."""
        ...


class Probe(Protocol):
    """Whether an instance serves: asked directly, past the gateway."""

    @property
    def name(self) -> str: ...

    def serves(self, incarnation: str | None, deadline: Deadline) -> Answer:
        """One attempt. DONE: a good answer came. FAILED: it did not; the note says what did."""
        ...
