"""What an admission's Job looks like: the settings that are the Job's own, whoever starts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from rankmuster.model.checked import Check, Part

Seconds = Annotated[float, Check(gt=0, le=86_400)]
Name = Annotated[str, Check(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Quantity = Annotated[str, Check(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=32)]
Label = Annotated[str, Check(pattern=r"^([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?$", max_length=63)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration(Part):
    """Of a taint that nodes of this cluster have of their own. `key` empty with `Exists`: of all."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


GPU_TOLERATION = Toleration(key="nvidia.com/gpu")
"""Of the taint that most clusters put on their GPU nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape(Part):
    """`image`: with torch or nccl-tests, and this package; None: the controller's own. `namespace`: None: the
    controller's own. `python`: the interpreter in the image that has torch.

    `seconds`: for everything that the Job measures; then it is ended, which is no pass. `start_seconds`: until its pod
    runs: the image is pulled in that time. `kept_seconds`: it stays to be looked at, and its result to be read.

    `runs`: starts of the benchmark, each in fresh processes: three decide what one leaves between the thresholds.
    `environment`: variables of the benchmark (NCCL_...). `kernel_log`: a file on the node, mounted to be read.

    `resources`: beside all GPUs of the node, `rdma/hca: "1"` for instance. `run_as_user`: None: as the image says.
    """

    image: Annotated[str, Check(min_length=1, max_length=512)] | None = None
    pull_secrets: tuple[Name, ...] = ()
    namespace: Name | None = None
    service_account: Name = "rankmuster-admission"
    runtime_class: Name | None = None
    priority_class: Name | None = None
    tolerations: tuple[Toleration, ...] = (GPU_TOLERATION,)
    labels: dict[str, Label] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    gpu_resource: str = "nvidia.com/gpu"
    resources: dict[str, Quantity] = field(default_factory=dict)
    cpu: Quantity = "4"
    memory: Quantity = "16Gi"
    shm: Quantity = "4Gi"
    scratch: Quantity = "4Gi"
    host_network: bool = False
    capabilities: tuple[str, ...] = ()
    run_as_user: Annotated[int, Check(ge=0)] | None = 65_532
    profile: Annotated[str, Check(min_length=1, max_length=200)] = "links"
    short_profile: Annotated[str, Check(min_length=1, max_length=200)] = "links"
    tool: Literal["auto", "nccl-tests", "built-in"] = "auto"
    python: str = "python3"
    runs: Annotated[int, Check(ge=1, le=20)] = 3
    dcgm_level: Annotated[int, Check(ge=0, le=4)] = 1
    environment: dict[str, str] = field(default_factory=dict)
    kernel_log: Annotated[str, Check(pattern=r"^/")] | None = None
    seconds: Seconds = 1_200.0
    start_seconds: Seconds = 600.0
    kept_seconds: Annotated[float, Check(ge=300, le=604_800)] = 86_400.0
    pair_seconds: Seconds = 600.0
    pair_gpus: Annotated[int, Check(ge=1, le=1024)] = 1
    pair_port: Annotated[int, Check(ge=1024, le=65_000)] = 29_500
    rails: tuple[Annotated[str, Check(pattern=r"^[0-9]+=[^=]+$")], ...] = ()

    @property
    def pair_work_seconds(self) -> float:
        """Of a pair's Job once its pods run: each waits for the other, then rail by rail is measured."""
        return self.start_seconds + self.pair_seconds * max(len(self.rails), 1)
