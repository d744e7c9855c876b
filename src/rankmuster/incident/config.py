"""The configuration file of `rankmuster incident` (YAML), as frozen values; `config_read` checks and makes them.

Everything observes by default: an actuator acts only where `enable` has its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rankmuster.incident.limits import DEFAULT as DEFAULT_LIMITS
from rankmuster.incident.limits import Limits
from rankmuster.model.checked import Check, Part
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind
from rankmuster.model.incident import Step
from rankmuster.watch.config import Hook

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"

Name = Annotated[str, Check(pattern=NAME)]
Seconds = Annotated[float, Check(gt=0, le=86_400)]


# -- actuators: traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class HaproxyTraffic(Part):
    """`sockets`: the runtime socket of every HAProxy process that serves it, a path or HOST:PORT each.

    `full_weight`: None for what it had at first.
    """

    kind: Literal["haproxy"] = "haproxy"
    sockets: Annotated[tuple[str, ...], Check(min_length=1)]
    backend: Name
    server: Name
    full_weight: Annotated[int, Check(ge=1, le=256)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangTraffic(Part):
    """sgl-model-gateway's (sglang-router 0.2 and later) /workers. `url`: of the gateway; `worker`: the worker's URL.

    `add`: what the worker has of its own beside its URL (model_id, worker_type, priority, cost, labels), as POST
    /workers takes it: without it such a worker could not be put back as it was.
    """

    kind: Literal["sglang_router"] = "sglang_router"
    url: str
    worker: str
    header_file: Path | None = None
    api: Literal["workers", "add_remove"] = "workers"  # add_remove: older ones, POST /add_worker?url=
    add: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmTraffic(Part):
    """vllm-project/router: /workers, or /add_worker and /remove_worker."""

    kind: Literal["vllm_router"] = "vllm_router"
    url: str
    worker: str
    header_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTraffic(Part):
    """POSTs `rankmuster.traffic/1`; `look_url` answers GET with {"state", "running", "queued", "percent"}."""

    kind: Literal["webhook_traffic"] = "webhook_traffic"
    url: str
    look_url: str | None = None
    header_file: Path | None = None


# -- actuators: process group


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorGroup(Part):
    """Our own supervisor, `rankmuster run`. `socket`: None for the one of this instance's name in the run folder."""

    kind: Literal["supervisor"] = "supervisor"
    socket: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmGroup(Part):
    """A batch job that is requeued whole. `job`: its number, or its name (`squeue --name`). `scontrol`: the program."""

    kind: Literal["slurm_requeue"] = "slurm_requeue"
    job: str
    scontrol: str = "scontrol"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGroup(Part):
    """Commands without a shell. Each has RANKMUSTER_INCIDENT_* in its environment and the call as JSON on its standard
    input; `look` prints JSON as `GroupLook` has it. Without `look` nobody can tell what is, and nothing is repeated."""

    kind: Literal["command"] = "command"
    terminate: Annotated[tuple[str, ...], Check(min_length=1)]
    start: Annotated[tuple[str, ...], Check(min_length=1)]
    look: tuple[str, ...] = ()
    elsewhere: bool = False


# -- actuators: nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode(Part):
    kind: Literal["slurm_drain"] = "slurm_drain"
    scontrol: str = "scontrol"


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyFile(Part):
    """A file of one node a line, with who, when and why behind a `#`: hostfiles' exclusions, `srun --exclude`."""

    kind: Literal["deny_file"] = "deny_file"
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookNode(Part):
    """POSTs `rankmuster.node/1`; `look_url`, with `{node}` in it, answers GET with {"fenced", "incident", "reason"}."""

    kind: Literal["webhook_node"] = "webhook_node"
    url: str
    look_url: str | None = None
    header_file: Path | None = None


# -- actuators: the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitRetest(Part):
    """`rankmuster admit`. `reach`: how a command is run on a node, with `{node}` in it: [srun, -w, "{node}"],
    [ssh, "{node}"]; empty: on this host. `pairs`: how two nodes are measured together (the launcher's options of
    `bench pairs`), empty: not at all. `profile`, `short_profile`: of the benchmark. `history`: None for the default.
    """

    kind: Literal["admit"] = "admit"
    reach: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    profile: str = "links"
    short_profile: str = "links"
    history: str | None = None
    options: tuple[str, ...] = ()
    good: tuple[Name, ...] = ()  # nodes known to be good, to pair with


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectEvidence(Part):
    """`rankmuster collect` here, and on the other hosts by `reach` (as in AdmitRetest); bundles of all are merged."""

    kind: Literal["collect"] = "collect"
    reach: tuple[str, ...] = ()
    hosts: tuple[Name, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe(Part):
    """A request to the instance itself. `body`: sent by POST; None: GET. Good is a 2xx status, and `expect` in the
    answer's text where it is given."""

    kind: Literal["http"] = "http"
    url: str
    body: str | None = None
    expect: str | None = None
    header_file: Path | None = None
    seconds: Seconds = 10.0


TrafficKind = HaproxyTraffic | SglangTraffic | VllmTraffic | WebhookTraffic
GroupKind = SupervisorGroup | SlurmGroup | CommandGroup
NodeKind = SlurmNode | DenyFile | WebhookNode

# -- the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConfig(Part):
    """One instance. The names given to its actuators ("traffic" by default is "INSTANCE/traffic/0") are what `enable`
    lists: `NAME/traffic`, `NAME/group`, `NAME/node`, `NAME/retest`, or the role alone for all instances.

    `nodes`: host name as evidence has it -> name as the scheduler has it, where they differ. `torch`, `nccl`, `engine`:
    versions, for the incident logging profile.
    """

    traffic: tuple[Annotated[TrafficKind, Check(discriminator="kind")], ...] = ()
    group: Annotated[GroupKind, Check(discriminator="kind")] | None = None
    node: tuple[Annotated[NodeKind, Check(discriminator="kind")], ...] = ()
    retest: AdmitRetest | None = None
    evidence: CollectEvidence = CollectEvidence()
    probe: HttpProbe | None = None
    metrics_url: str | None = None
    nodes: dict[str, Name] = field(default_factory=dict)
    torch: str | None = None
    nccl: str | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRow(Part):
    """The operator's own row before the recovery table: the first that fits. What is None fits everything."""

    class_: FaultClass | None = field(default=None, metadata={"json": "class"})
    subclass: Subkind | None = None
    confidence: Confidence | None = None
    progress: Progress | None = None
    boundary: Boundary
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Part):
    """`percent`: of its full weight that a slow instance keeps."""

    percent: Annotated[float, Check(gt=0, lt=100)] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentConfig(Part):
    """All of it. `enable`: `traffic`, `group`, `node`, `retest`, or with an instance before it (`llm-0/group`).

    `approve`: steps before which an operator is waited for. `undecided`: what an instance that has stopped gets
    when the verdict does not decide. `least_confidence`: below it nothing is done. `again_seconds`: a host that was
    suspected within that time is suspected again. `incident_profile`: whether a rebuilt group gets one incarnation
    with the incident logging profile. `watch`: folder of the watch's state file, which `incident serve` follows.
    `drift`: a file as `rankmuster drift --all --format json` writes it: systematic drift in it holds what would be
    done for slowness, and fences nobody but for a lost GPU or host. `hooks`: called when an incident is opened,
    waits for an operator, and is closed.
    """

    journal: str | None = None
    folder: Path | None = None
    watch: Path | None = None
    enable: tuple[str, ...] = ()
    approve: tuple[Step, ...] = ()
    undecided: Literal["hold", "rebuild"] = "hold"
    least_confidence: Confidence = Confidence.LIKELY
    again_seconds: Annotated[float, Check(gt=0, le=366 * 86_400)] = 7 * 86_400.0
    incident_profile: bool = True
    recovery: tuple[RecoveryRow, ...] = ()
    budget: dict[Step, Seconds] = field(default_factory=dict)
    total_seconds: Seconds | None = None
    limits: Limits = DEFAULT_LIMITS
    slow: Slow = Slow()
    drift: Path | None = None
    instances: dict[str, InstanceConfig] = field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    listen: str | None = None
