"""What the operator asked `kube inject` for."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.environment.draft import ProfileName
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH, Version
from rankmuster.model.kube import Grouping

IMAGE = "registry.example/rankmuster"
SECRET = "rankmuster-token"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class InjectSettings:
    """`version`: of this program, for the annotation and the image's tag. `containers`: the engine's, empty: found.
    `run_as`: user of the sidecar, None: the engine's. `agent`: whether there is one on each node. `ptrace`: whether the
    sidecar gets SYS_PTRACE, which it needs where the engine runs as root. `incident_profile`: whether the controller
    can give one start the incident's variables; then the profile's are in a ConfigMap."""

    version: str
    image: str = IMAGE
    containers: tuple[str, ...] = ()
    engine: Engine | None = None
    profile: ProfileName = ProfileName.STEADY
    torch: Version = ASSUMED_TORCH
    nccl: Version = ASSUMED_NCCL
    grouping: Grouping = Grouping.AUTO
    metrics_url: str | None = None
    secret: str = SECRET
    gate: bool = False
    agent: bool = True
    metrics: bool = True
    run_as: int | None = None
    ptrace: bool = True
    evidence_size: str = "16Gi"
    incident_profile: bool = False
