"""An incident: one run of the runbook, as what happened to it (events), what it decided, and what actuators answered.

An incident *is* its events, in their order: the journal keeps them, the state machine (`incident.machine`) folds them,
timeline and post-mortem are made from them. Values are frozen; times are unix seconds unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind

SCHEMA = "rankmuster.incident/1"


class Step(str, Enum):
    """One step of the runbook, in the order in which they may come."""

    SHED = "shed"  # of a slow group: the gateway gives it less
    STOP_TRAFFIC = "stop_traffic"  # no new requests
    DRAIN = "drain"  # those that run may end, for a limited window
    EVIDENCE = "evidence"  # beside the drain
    DIAGNOSE = "diagnose"
    DECIDE = "decide"
    APPROVE = "approve"  # an operator is waited for
    FENCE = "fence"  # nothing new is placed on the suspect nodes
    CUT = "cut"  # what still runs ends with an error that says so
    TERMINATE = "terminate"  # the whole process group
    SHORT_RETEST = "short_retest"  # of the suspects, where the group cannot be started elsewhere
    START = "start"  # the whole process group, a new incarnation
    VERIFY = "verify"  # it serves
    RECOVER = "recover"  # a slow group is waited for
    RESTORE = "restore"  # traffic
    RETEST = "retest"  # of the suspects, alone and with a good node, while they are idle
    SETTLE = "settle"  # quarantine those that failed, let in those that passed


class Ending(str, Enum):
    """How a step or an action ended.

    OBSERVED: not done, since it is not enabled; the note says what would have been done. REFUSED: a limit or the world
    forbids it. NODE: a process could not be killed, or GPU memory was not freed: only the node's owner can help.
    UNKNOWN: a runner died in between, and nobody can tell.
    """

    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    OBSERVED = "observed"
    REFUSED = "refused"
    NODE = "node"
    UNKNOWN = "unknown"

    @property
    def good(self) -> bool:
        """Whether what was wanted holds now."""
        return self is Ending.DONE


class EventKind(str, Enum):
    OPENED = "opened"
    RUNNER = "runner"  # a runner took the incident, at first or after another one's end
    PLANNED = "planned"  # the steps that follow
    STEP_BEGUN = "step_begun"
    STEP_ENDED = "step_ended"
    INTENT = "intent"  # an action is about to be done
    RESULT = "result"  # ... and what came of it
    DECIDED = "decided"
    SEEN = "seen"  # what the watch says of the instance has changed
    APPROVED = "approved"  # by an operator
    ABORTED = "aborted"  # by an operator
    DEADLINE = "deadline"  # the total deadline has passed
    NOTED = "noted"  # what an operator should know besides
    CLOSED = "closed"
    REOPENED = "reopened"  # by an operator: resume


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of the journal. `sequence`: from 1, without gaps, given by the journal. `by`: the runner or operator.

    `action`: of an INTENT or RESULT, a name unique in its step ("front:stop_new"). `data`: plain values of JSON.
    """

    kind: EventKind
    at: float
    sequence: int = 0
    step: Step | None = None
    action: str | None = None
    ending: Ending | None = None
    note: str = ""
    by: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class OpenedBy(str, Enum):
    """Why an incident was opened. ENDED: all processes have ended by themselves, as their supervisor says."""

    STOPPED = "stopped"
    SLOW = "slow"
    ENDED = "ended"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What was known when it was opened. `at`: when it was detected; `since`: from when the instance has stood still.

    `incarnation`: the start of the instance that this is about; every action that ends or starts processes is bound to
    it. `bundle`, `verdict`: where somebody has collected and diagnosed already. `pids`: on this host.
    """

    instance: str
    incarnation: str | None
    by: OpenedBy
    progress: Progress
    at: float
    since: float | None = None
    reason: str = ""
    host: str = ""
    deployment: str | None = None
    pids: tuple[int, ...] = ()
    metrics_url: str | None = None
    bundle: str | None = None
    verdict: Mapping[str, Any] | None = None


class Course(str, Enum):
    """What is done about it. HOLD: nothing, until an operator says so."""

    REBUILD = "rebuild"
    SHED = "shed"
    CUT = "cut"  # boundary request: what runs is ended, the instance stays
    RESTORE = "restore"  # nothing is wrong, or it goes on by itself
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows from a verdict. `table`: the boundary of the recovery table; `boundary`: after the operator's own
    rows, repetition and limits. `fence`, `retest`: node names. `elsewhere`: the group must not be started on them.
    `incident_profile`: whether the next incarnation is started with the incident logging profile.
    `held`: why nothing is done without an operator; None where something is. `waits_for_limits`: held by limits alone,
    so that it goes on by itself once they allow it.
    """

    course: Course
    boundary: Boundary
    table: Boundary
    class_: FaultClass
    subclass: Subkind | None
    confidence: Confidence | None
    progress: Progress
    suspects: tuple[str, ...] = ()
    fence: tuple[str, ...] = ()
    retest: tuple[str, ...] = ()
    elsewhere: bool = False
    incident_profile: bool = False
    why: tuple[str, ...] = ()
    held: str | None = None
    waits_for_limits: bool = False


class Outcome(str, Enum):
    """How an incident was closed.

    RECOVERED: it serves again after what was done. RESTORED: nothing had to be done, traffic is back. OBSERVED: it is
    only said what would have been done. HELD: nobody approved in time. GAVE_UP: the total deadline; GPUs were freed
    first. FAILED: a step that everything else needs did not come to its end.
    """

    RECOVERED = "recovered"
    RESTORED = "restored"
    OBSERVED = "observed"
    HELD = "held"
    ABORTED = "aborted"
    GAVE_UP = "gave_up"
    FAILED = "failed"


SERVED = (Outcome.RECOVERED, Outcome.RESTORED)
"""It serves again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentHead:
    """One incident in a list. `closed_at`, `outcome`: None while it is open. `lease`: who works on it now, or None."""

    id: str
    instance: str
    incarnation: str | None
    opened_at: float
    by: OpenedBy
    class_: FaultClass | None = None
    boundary: Boundary | None = None
    closed_at: float | None = None
    outcome: Outcome | None = None
    lease: str | None = None


# -- what actuators answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of one action. `note`: one sentence: what was tried, on whom, what came back. `data`: plain values of JSON."""

    ending: Ending
    note: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class TrafficState(str, Enum):
    """READY: new requests come. STOPPED: those that run go on. CUT: nothing gets through. MIXED: gateways differ."""

    READY = "ready"
    STOPPED = "stopped"
    CUT = "cut"
    MIXED = "mixed"
    ABSENT = "absent"  # the gateway does not know the instance
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficLook:
    """`running`, `queued`: requests at the gateway; None where it does not say. `percent`: of the instance's own full
    weight, None where there are no weights."""

    state: TrafficState
    running: int | None = None
    queued: int | None = None
    percent: float | None = None
    note: str = ""


class GroupState(str, Enum):
    """Of a process group. ENDED: its processes are all gone, by themselves or by us. PARTLY: some are gone."""

    STARTING = "starting"
    RUNNING = "running"
    PARTLY = "partly"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """`incarnation`: of what runs, or of what ran last. `operation`: the one that started it, where it was ours; empty
    where it is known that it was none of ours, None where that is not known.

    `ended_by_itself`: nobody told it to end. `exit_status`: of its launcher. `at`: unix seconds, when it began, or when
    it ended where it has. `nodes`: what `hosts` are called where nodes are fenced, for those that are called otherwise
    (a pod's name, and the node that it is on now). `exact`: openings call incarnations by the same names, so that
    another name is another start, whatever clocks say.
    """

    state: GroupState
    incarnation: str | None = None
    operation: str | None = None
    hosts: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    ended_by_itself: bool = False
    exit_status: int | None = None
    at: float | None = None
    note: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False


class Fenced(str, Enum):
    NO = "no"
    OURS = "ours"  # by the incident that asks, or by another one of ours: `incident` says which
    OTHERS = "others"  # never lifted by us
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLook:
    fenced: Fenced
    incident: str | None = None
    reason: str = ""
    note: str = ""


class RetestEnding(str, Enum):
    PASS = "pass"  # noqa: S105  # a result of a test
    FAIL = "fail"
    PROVISIONAL = "provisional"  # too little history: neither
    ERROR = "error"  # it could not be tested
    NOT_TESTED = "not_tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetest:
    """`alone`: by itself; `paired`: with a node that is known to be good, None where there was none. `record`: where
    the record of the admission lies."""

    node: str
    ending: RetestEnding
    note: str = ""
    alone: RetestEnding | None = None
    paired: RetestEnding | None = None
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWish:
    """How an incarnation is to be started. `environment`: variables for this one start only. `avoid`: node names.

    `suspect`: the class or sub-kind whose incident logging profile this one incarnation gets; None: steady.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    avoid: tuple[str, ...] = ()
    suspect: str | None = None


# -- limits


class UseKind(str, Enum):
    REBUILD = "rebuild"  # subject: an instance
    FENCE = "fence"  # subject: a node


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Something that limits count. `ended_at`: a rebuild that is over, a fence that was lifted; None while it lasts."""

    kind: UseKind
    subject: str
    incident: str
    at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The circuit breaker of a fleet. While it is open nothing is rebuilt and nobody fenced without an operator."""

    opened_at: float
    why: str
    closed_at: float | None = None
    closed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What the journal of a fleet knows within a horizon, read in one transaction."""

    uses: tuple[Use, ...] = ()
    opened: tuple[IncidentHead, ...] = ()  # newest last, those that are still open too
    breaker: Breaker | None = None  # the newest one, also where it is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Whether limits allow it. `open_breaker`: why the breaker has to be opened now, None where it does not."""

    allowed: bool
    why: str = ""
    open_breaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to work on one instance. `token` grows with every holder: what an older one writes is refused.

    `until`: in seconds of the journal's clock.
    """

    instance: str
    holder: str
    token: int
    until: float
