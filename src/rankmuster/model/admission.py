"""The decision whether a node or a set of nodes may join the pool, as a record (schema `rankmuster.admission/1`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.judgement import RegimeJudgement

SCHEMA = "rankmuster.admission/1"


class Decision(str, Enum):
    """The answer to "may this node, or these nodes, join the pool?"."""

    PASS = "pass"  # noqa: S105  # a word of the answer, no password
    FAIL = "fail"
    PROVISIONAL = "provisional"  # nothing speaks against it, and too little history speaks for it
    ERROR = "error"  # could not be decided: not a pass


class CheckState(str, Enum):
    """How one check ended."""

    PASS = "pass"  # noqa: S105  # a word of the answer, no password
    FAIL = "fail"
    WARN = "warn"
    UNKNOWN = "unknown"  # could not be read, or was not run: never a pass
    ERROR = "error"
    HUNG = "hung"  # a hung check is a failed check


class CheckGroup(str, Enum):
    """What a check is about."""

    HARDWARE = "hardware"
    ENVIRONMENT = "environment"
    PEER_TO_PEER = "peer_to_peer"
    NETWORK = "network"
    TOPOLOGY = "topology"
    CORRECTNESS = "correctness"
    NCCL = "nccl"  # its choices: algorithm, protocol, transports, channels
    PROFILE = "profile"


class Kinship(str, Enum):
    """Whom a node is compared with."""

    CLASS = "class"  # its own
    KIN = "kin"  # one that differs in settings alone: a result below it refuses, a result within it is provisional
    FLOOR = "floor"  # no history: a part of what the hardware can do
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer. `subject`: "GPU 2 (0000:9b:00)", "mlx5_3", the node. `evidence`: where from.

    `required`: without a pass of it there is no pass of the node.
    """

    name: str
    group: CheckGroup
    state: CheckState
    subject: str
    statement: str
    advice: str = ""
    evidence: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """Everything the decision rests on. Times in unix seconds. `hash`: sha256 over the canonical JSON without it.

    `compared_with`: the class hash whose history was used, and `kinship`: what that class is to the node.
    """

    decision: Decision
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]
    started_at: float
    ended_at: float
    fingerprint: Mapping[str, str]  # class_hash, kin_hash, node_hash, topology_hash; unknown ones as "unknown: reason"
    profile: str
    compared_with: str | None
    kinship: Kinship
    history_runs: int
    history_nodes: int
    checks: tuple[Check, ...]
    judgements: tuple[RegimeJudgement, ...]
    runs: tuple[BenchmarkRun, ...] = ()
    retests: int = 0
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    hash: str = ""
