"""CommunicationPolicy: which instances, deadlines, enabled actions, budgets. What `enable` does not name observes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rankmuster.kube.crd.base import Condition, LabelKey, Seconds, Selector, Shape
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind
from rankmuster.model.incident import Step
from rankmuster.model.kube import Grouping, WorkloadKind


class Traffic(Shape):
    """How requests are kept away. `readiness_gate`: pods carry our gate (`kube inject --gate`). `pool_label`: the label
    by which an InferencePool selects them. `gateways`: whose they are: some do not heed readiness."""

    readiness_gate: bool = False
    pool_label: LabelKey | None = None
    gateways: tuple[Literal["service", "inference_pool", "sglang", "production_stack", "vllm_router"], ...] = ()


class Probe(Shape):
    """A request to the leader's pod itself. `body`: sent by POST; none: GET. Good is a 2xx with `expect` in it."""

    port: Annotated[int, Field(ge=1, le=65_535)]
    path: Annotated[str, Field(max_length=1024, pattern=r"^/")] = "/health"
    body: Annotated[str, Field(max_length=65_536)] | None = None
    expect: Annotated[str, Field(max_length=4096)] | None = None
    seconds: Seconds = 10.0


class Evidence(Shape):
    """`upload`: where bundles go when they are safe in the controller's volume: s3://BUCKET/FOLDER or file:///PATH.
    `upload_seconds`: for that alone."""

    upload: Annotated[str, Field(max_length=1024, pattern=r"^(s3|file)://")] | None = None
    upload_seconds: Seconds = 60.0


class Nodes(Shape):
    """How a suspect node is kept from new pods. `cordon`: `unschedulable` as well, where nobody else has set it."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    cordon: bool = False


class Row(Shape):
    """A row before the recovery table; the first that fits. What is left out fits everything."""

    fault: Annotated[FaultClass | None, Field(alias="class")] = None
    subclass: Subkind | None = None
    confidence: Confidence | None = None
    progress: Progress | None = None
    boundary: Boundary
    reason: Annotated[str, Field(max_length=1024)] = ""


class Limits(Shape):
    """Budgets of the instances of this policy; what is left out is the controller's own."""

    rebuilds_per_instance: Annotated[int, Field(ge=1)] | None = None
    instance_seconds: Seconds | None = None
    fences_per_node: Annotated[int, Field(ge=1)] | None = None
    node_seconds: Annotated[float, Field(gt=0, le=31_622_400)] | None = None


class Deadlines(Shape):
    """Seconds. `total`: of all of it; `steps`: of each step that differs from its default."""

    total: Seconds | None = None
    steps: dict[Step, Seconds] = Field(default_factory=dict)


class PolicySpec(Shape):
    """`selector`: of the workloads' own labels, in the policy's namespace. `kinds`: of workloads; empty: all known.
    `grouping`: what one instance is. `container`: the engine's; none: the first that asks for GPUs, else the first.
    `enable`: what may act. `approve`: steps before which an operator is waited for. `slow_percent`: of its traffic that
    a slow instance keeps. `paused`: nothing is opened, and what is open ends no group and fences no node.
    `several`: it is meant for several workloads; else one that matches more than one governs none of them."""

    selector: Selector
    several: bool = False
    kinds: tuple[WorkloadKind, ...] = ()
    grouping: Grouping = Grouping.AUTO
    container: Annotated[str, Field(max_length=63)] | None = None
    enable: tuple[Literal["traffic", "group", "node", "retest"], ...] = ()
    approve: tuple[Step, ...] = ()
    undecided: Literal["hold", "rebuild"] = "hold"
    least_confidence: Confidence = Confidence.LIKELY
    incident_profile: bool = False
    slow_percent: Annotated[float, Field(gt=0, lt=100)] = 30.0
    deadlines: Deadlines = Deadlines()
    limits: Limits = Limits()
    traffic: Traffic = Traffic()
    probe: Probe | None = None
    evidence: Evidence = Evidence()
    nodes: Nodes = Nodes()
    recovery: tuple[Row, ...] = ()
    paused: bool = False


class Matched(Shape):
    """One instance that the policy has found."""

    name: Annotated[str, Field(max_length=253)]
    workload: Annotated[str, Field(max_length=320)]
    pods: int
    progress: Annotated[str, Field(max_length=32)] = "unknown"
    problem: Annotated[str, Field(max_length=1024)] = ""


class PolicyStatus(Shape):
    """`instances`: at most 100 of them, those with a problem first. `conditions`: Accepted, Acting, Matched,
    Identified, Seen, Gated."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    matched: int = 0
    open_incidents: int = 0
    instances: Annotated[tuple[Matched, ...], Field(max_length=100)] = ()
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
