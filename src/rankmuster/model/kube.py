"""Names that are ours in a Kubernetes cluster, and what pods, groups of pods and nodes are, as frozen values.

Everything that is read from an API server is trimmed to these at once: a fleet's objects would not fit into memory.
Times are unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

DOMAIN = "rankmuster.dev"
"""Group of our resources, and prefix of our labels, annotations, taints and conditions."""

API_VERSION = f"{DOMAIN}/v1alpha1"

FIELD_MANAGER = "rankmuster"
"""Of server-side apply: what others own, theirs it stays."""

GATE = f"{DOMAIN}/serving"
"""Type of the pod condition that is a readiness gate. Absent counts as False, as Kubernetes has it."""

FENCE_TAINT = f"{DOMAIN}/fenced"
ADMISSION_TAINT = f"{DOMAIN}/admission"
FENCED_BY = f"{DOMAIN}/fenced-by"
"""Annotation of a node: JSON with the incident, the reason, when, and what was set (taint, label, cordon)."""

FENCED_LABEL = f"{DOMAIN}/fenced"
INJECTED = f"{DOMAIN}/injected"
"""Annotation of a pod template: the version that `kube inject` was."""

FINALIZER = f"{DOMAIN}/incident"
"""Of policies, while an incident under them is open."""

ADMISSION_BY = f"{DOMAIN}/admission-by"
"""Annotation of a node whose admission taint is ours: JSON, which admission and when."""

INSTANCE_LABEL = f"{DOMAIN}/instance"
SCHEMA_ANNOTATION = f"{DOMAIN}/schema"
"""Of our CustomResourceDefinitions: the number of the schema. One that is greater than SCHEMA was written by a newer
version than this one."""

SCHEMA = 1

SIDECAR = "rankmuster"
"""Name of the injected container."""

SIDECAR_PORT = 9465
AGENT_PORT = 9466
METRICS_PORT = 9464

EVIDENCE_FOLDER = "/rankmuster/evidence"
"""Where the shared volume stands in every container of an injected pod."""

TOKEN_FILE = "/rankmuster/token/token"  # noqa: S105  # a path
"""Where the secret that sidecars, agents and controller share is mounted."""


class WorkloadKind(str, Enum):
    """What makes pods. A KServe or llm-d deployment is one of these below."""

    LEADER_WORKER_SET = "LeaderWorkerSet"
    JOB_SET = "JobSet"
    STATEFUL_SET = "StatefulSet"
    DEPLOYMENT = "Deployment"


class Grouping(str, Enum):
    """What one instance is. AUTO: a LeaderWorkerSet's group, a whole JobSet, a whole StatefulSet, a pod of a
    Deployment."""

    AUTO = "auto"
    POD = "pod"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """`restarts`: by the kubelet, in this pod. `exit_code`, `signal`, `reason`, `ended_at`: of its last end, also where
    it runs again. `gpus`: what it asks for. `init`: an init container; one that goes on (a native sidecar) too."""

    name: str
    restarts: int = 0
    running: bool = False
    ready: bool = False
    started_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    ended_at: float | None = None
    gpus: int = 0
    init: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerView:
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """`gates`: readiness gates of its spec -> the condition's status, None where absent. `labels`: all of them;
    `annotations`: those of workloads and ours. `disruption`: reason of its DisruptionTarget condition.
    `unready_since`: from when not all of its containers are ready; None where they are, or where nothing says so.
    `hostname`: as evidence from inside names it (a Job's pods have another one than their names). `grace`: seconds from
    SIGTERM to SIGKILL."""

    namespace: str
    name: str
    uid: str
    created: float
    resource_version: str = ""
    node: str | None = None
    ip: str | None = None
    host_ip: str | None = None
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerView | None = None
    containers: tuple[ContainerView, ...] = ()
    gates: Mapping[str, bool | None] = field(default_factory=dict)
    disruption: str | None = None
    reason: str = ""
    unready_since: float | None = None
    hostname: str = ""
    grace: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """The pods of one instance. `name`: of the instance in journal, evidence and metrics (NAMESPACE.WORKLOAD[.INDEX]).
    `index`: of its group, or its pod's name, None for a whole workload. `size`: pods that it should have, None where
    nothing says. `anchor`: the pod whose UID stands for the incarnation (leader, first index), None while there is
    none.
    `problem`: why it cannot be acted on (not enough identity); empty where it can."""

    name: str
    namespace: str
    kind: WorkloadKind
    workload: str
    workload_uid: str | None = None
    index: str | None = None
    size: int | None = None
    anchor: PodView | None = None
    pods: tuple[PodView, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintView:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """`facts`: what a change of which makes it another node (labels of GFD, NFD and GPU operator, kernel, image,
    driver, GPUs, boot id). `gpus`: allocatable. `labels`: hostname and those that selectors of settings name."""

    name: str
    uid: str
    created: float
    resource_version: str = ""
    ready: bool = False
    unschedulable: bool = False
    deleting: bool = False
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[TaintView, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    address: str | None = None
