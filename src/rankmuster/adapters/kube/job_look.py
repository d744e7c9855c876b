"""How a Job of ours stands, from its object, its pods' and what they said: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class JobState(str, Enum):
    """ABSENT: there is none of that name. OTHERS: there is, and it is none of ours. WAITING: its pods do not all run
    yet. ENDED: by itself, or by a limit."""

    UNKNOWN = "unknown"
    ABSENT = "absent"
    OTHERS = "others"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Failing(str, Enum):
    """Why nothing can be believed of an ended Job, or why a waiting one waits."""

    UNSCHEDULABLE = "Unschedulable"
    IMAGE = "ImageNotPulled"
    STARTING = "NotStarted"
    EVICTED = "Evicted"
    HUNG = "Hung"
    GARBAGE = "NotBelieved"
    OTHER_NODE = "OtherNode"
    GONE = "PodGone"
    UNDECIDED = "Undecided"
    NOT_KEPT = "NotKept"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What one pod said, its hash checked. `parts`: name -> bytes (`record`, `fingerprint`, `output`, `output:0`).
    `decision`, `reason`: of a record, as the pod itself sees it."""

    kind: str
    node: str
    decision: str = ""
    reason: str = ""
    parts: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLook:
    """`since`: its creation, unix seconds. `failing`, `note`: why it waits, or what is wrong with how it ended.
    `said`: node -> what the pod there said; of an ended Job that can be believed there is one of each node.
    `places`: node -> its pod's place in a pair (JOB_COMPLETION_INDEX)."""

    name: str
    state: JobState
    uid: str | None = None
    since: float = 0.0
    running_since: float | None = None
    failing: Failing | None = None
    note: str = ""
    said: Mapping[str, Payload] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)

    @property
    def believed(self) -> bool:
        """Whether it ended and what it said can be read."""
        return self.state is JobState.ENDED and self.failing is None and bool(self.said)
