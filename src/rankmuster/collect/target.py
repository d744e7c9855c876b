"""The instance that evidence is taken of, and its processes on this node, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Role(str, Enum):
    """What a process does for its instance. WORKER: it has a rank and a GPU (vLLM's Worker, SGLang's scheduler)."""

    WORKER = "worker"
    ENGINE = "engine"  # vLLM's EngineCore, a DP controller: no rank of its own, or all ranks inside it
    SERVER = "server"  # answers HTTP: API server, tokenizer manager
    HELPER = "helper"  # detokenizer, resource tracker, compile workers
    LAUNCHER = "launcher"  # torchrun, mpirun, the engine's parent


@dataclass(frozen=True, slots=True)
class ProcessOfInstance:
    """One process. `pid`: as this program's own /proc numbers it; `inner_pid`: as the process sees itself (the last of
    NSpid), which is what NCCL, RAS and torch write; `host_pid`: as NVML sees it, None where it cannot be known here.

    `started_at`: unix seconds. `start_ticks`: field 22 of /proc/PID/stat; (pid, start_ticks) never names another
    process. `environ`, `command`: everything, for collectors to look things up in; never written out unfiltered.
    `root`: where the process's own file system is seen from here (`/proc/PID/root`), `/` when it is the same.
    `gpu_uuids`, `gpus`: NVML indices and UUIDs, from NVML's process list or the environment.
    `state`: one letter of /proc/PID/stat (Z: it has exited and was not reaped); `exit_status`: of such a one, negative
    for a signal, None where the kernel does not tell.
    """

    pid: int
    inner_pid: int
    host_pid: int | None
    start_ticks: int
    started_at: float
    role: Role
    name: str  # the title: "VLLM::Worker_TP0", "sglang::scheduler_TP3", "python"
    rank: int | None = None
    local_rank: int | None = None
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    uid: int = 0
    parent: int | None = None
    root: Path = Path("/")
    cwd: Path | None = None  # as the process sees it; read it below `root`
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    state: str = "?"
    exit_status: int | None = None

    def outside(self, path: str) -> Path:
        """Where a path of the process (absolute, or relative to its working folder) is found from here."""
        inner = Path(path)
        if not inner.is_absolute():
            inner = (self.cwd or Path("/")) / inner
        return self.root / str(inner).lstrip("/")


@dataclass(frozen=True, slots=True)
class Target:
    """One instance on this node. `name`, `deployment`, `incarnation` as in DESIGN, "Words".

    `engine`: vllm, sglang, tensorrt-llm, torch, ... or None; `world_size`: ranks on all nodes, None when unknown.
    `nccl_loaded`: whether a process has NCCL's library mapped; None when that could not be looked at.
    `metrics_urls`: where the engine's metrics page may be asked for, likeliest first.
    `log_folders`: folders with logs that belong to the instance (Ray's session folder, --log-dir).
    `found_by`: how it was found, one word a way: pid, environment, name, nvml, ray.
    """

    name: str
    host: str
    processes: tuple[ProcessOfInstance, ...]
    deployment: str | None = None
    incarnation: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    world_size: int | None = None
    nccl_loaded: bool | None = None
    metrics_urls: tuple[str, ...] = ()
    log_folders: tuple[Path, ...] = ()
    found_by: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[ProcessOfInstance, ...]:
        """The processes that have a rank or a GPU, by rank."""
        found = [process for process in self.processes if process.role is Role.WORKER or process.rank is not None]
        return tuple(sorted(found, key=lambda process: (process.rank is None, process.rank or 0, process.pid)))

    def setting(self, *names: str) -> str | None:
        """The first of these variables that any process of the instance has set, workers first."""
        others = [process for process in self.processes if process not in self.workers]
        for name in names:
            for process in (*self.workers, *others):
                if name in process.environ:
                    return process.environ[name]
        return None
