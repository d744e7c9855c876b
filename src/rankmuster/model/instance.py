"""What the supervisor knows: `instance.json` and the bundle's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.node import TaskState


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process of the instance at the last look. `exit_code` None: still running; -N: ended by signal N.

    `exited_at` None with an exit code: ended at an unknown time, which proves nothing about who was first.
    `state`: as the kernel had it at a collector's look, ended too where nobody knows how it ended. `local_rank`: its
    number on its node, as its launcher gave it.
    `note`: how the exit code was read where it was not plain ("exit status 137 read as signal 9"), or that it could
    not be read at all (then `exit_code` None does not mean "still running").
    """

    rank: int
    pid: int | None
    host: str | None
    gpu: int | None
    exit_code: int | None
    exited_at: float | None
    gpu_uuid: str | None = None
    bus_id: str | None = None
    pod: str | None = None
    node: str | None = None
    oom_killed: bool | None = None
    note: str | None = None
    state: TaskState | None = None
    local_rank: int | None = None


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """`instance.json`. Times are unix seconds. `gpus_of_nodes`: GPUs are numbered as their nodes do, and
    not as NCCL in a pod does."""

    source: str
    instance: str | None
    deployment: str | None
    incarnation: str | None
    world_size: int | None
    started_at: float | None
    last_look: float | None
    processes: tuple[ProcessFacts, ...]
    environment: Mapping[str, str]
    gpus_of_nodes: bool = False


@dataclass(frozen=True, slots=True)
class ManifestFacts:
    """`manifest.json` of a bundle: look times per file and what each collector came back with."""

    source: str
    look_times: Mapping[str, float]  # path -> unix seconds
    ranks: Mapping[str, int]  # path -> global rank
    hosts: Mapping[str, str]  # path -> host
    clock_offsets: Mapping[str, float]  # host -> seconds to add to reach the collector's clock
    outcomes: Mapping[str, str]  # collector -> outcome
    digests: Mapping[str, str] = field(default_factory=dict)  # path -> sha256, lower-case hex
    notes: Mapping[str, str] = field(default_factory=dict)  # collector -> why it came back so, one sentence
