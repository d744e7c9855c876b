"""What a drill's job is made of, as a frozen value that its ranks read from a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from rankmuster.drill.traffic import Traffic

PLAN = "plan.json"
TALLY = "tally"
STEPS = "steps"
LOGS = "logs"
LEDGER = "ledger"
ORDERS = "orders"
"""In the job's folder: this plan, who has come how far, how long each block of steps took, what everybody said, what
the engine counts, and what it tells its ranks."""
STORE_FD = "RANKMUSTER_DRILL_STORE_FD"
"""Variable with the number of the store's socket, for rank 0: the parent opened it, so that no other program takes its
port in between."""


class Backend(str, Enum):
    """How the ranks talk: NCCL on as many GPUs as ranks, or gloo on any machine."""

    NCCL = "nccl"
    GLOO = "gloo"


class Control(str, Enum):
    """How ranks wait for what to do next: on the host, or in a broadcast over gloo."""

    HOST = "host"
    BROADCAST = "broadcast"


@dataclass(frozen=True, slots=True)
class Serving:
    """Requests instead of steps without an end. `seed`: of the traffic. `most_running`: requests in one batch.

    `load_seconds`: of the slowest rank, to load its weights. `front`: real requests, from the front end's process,
    instead of planned ones (`drill.engine`).
    """

    traffic: Traffic = Traffic.BUSY
    seed: int = 1
    most_running: int = 8
    load_seconds: float = 0.0
    control: Control = Control.HOST
    front: bool = False


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A tensor-parallel decode loop: each step broadcasts a token, reduces every layer's activations over all ranks
    and gathers the logits.

    `hidden`, `vocab`, `batch`: elements of the activations (batch x hidden) and logits (batch x vocab) of each rank;
    `batch` is also the tokens that a step generates. `pace_seconds`: sleep after each step, so that a small machine
    keeps time for others. `sync_every`: steps between two waits for the GPU; progress is told and timed only there.
    `graph`: the step is captured once and replayed (NCCL only). `timeout_seconds`: of the process group; longer than a
    drill, else torch's watchdog ends what is looked at. `most_seconds`: after which each rank ends itself, whatever
    happens. `fault`: name in `faults.FAULTS`, by the rank `culprit`. `debug_server`: torch's worker server of each
    rank on loopback. `seed`: of what a fault does at random. `serving`: requests come and go, see `Serving`; None for
    the same batch always.
    """

    instance: str
    ranks: int
    backend: Backend
    fault: str = "none"
    culprit: int = 0
    layers: int = 4
    hidden: int = 4096
    vocab: int = 8000
    batch: int = 16
    graph: bool = False
    pace_seconds: float = 0.0005
    sync_every: int = 10
    timeout_seconds: float = 600.0
    most_seconds: float = 900.0
    debug_server: bool = False
    seed: int = 1
    serving: Serving | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a job that cannot be."""
        if self.ranks < 2:
            raise ValueError(f"a job of {self.ranks} rank(s) has nobody to wait for; give at least 2")
        if not 0 <= self.culprit < self.ranks:
            raise ValueError(f"rank {self.culprit} is not in a job of {self.ranks} ranks (0 to {self.ranks - 1})")
        if self.graph and self.backend is not Backend.NCCL:
            raise ValueError("only NCCL's collectives can be captured in a CUDA graph; leave the graph or take nccl")
        if min(self.layers, self.hidden, self.vocab, self.batch, self.sync_every) < 1:
            raise ValueError("layers, sizes and steps between waits are counts of at least 1")

    def to_json(self) -> str:
        """One line that `from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JobPlan:
        """Raises ValueError or TypeError when `text` is not what `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        serving = fields.get("serving")
        if serving is not None:
            kinds = {"traffic": Traffic(serving["traffic"]), "control": Control(serving["control"])}
            fields["serving"] = Serving(**{**serving, **kinds})
        return cls(**{**fields, "backend": Backend(fields["backend"])})

    @classmethod
    def small(cls, instance: str, ranks: int, **more: Any) -> JobPlan:
        """The gloo job for a machine of two cores, with torch's worker servers (torch 2.10 and later)."""
        sizes: dict[str, Any] = {"layers": 3, "hidden": 64, "vocab": 128, "batch": 4, "pace_seconds": 0.01}
        return cls(instance=instance, ranks=ranks, backend=Backend.GLOO, **{"debug_server": True, **sizes, **more})
