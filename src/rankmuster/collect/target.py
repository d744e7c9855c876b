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
    `host`: as the process itself knows it, where that is another name than its target's (several pods of one node).
    `state`: one letter of /proc/PID/stat (Z: it has exited and was not reaped; X: it is gone); `exit_status`: of such a
    one, negative for a signal, None where nobody tells; `exited_at`: unix seconds, None unknown.
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
    exited_at: float | None = None
    host: str | None = None

    def outside(self, path: str) -> Path:
        """Where a path of the process (absolute, or relative to its working folder) is found from here."""
        inner = Path(path)
        if not inner.is_absolute():
            inner = (self.cwd or Path("/")) / inner
        return self.root / str(inner).lstrip("/")


@dataclass(frozen=True, slots=True)
class LeftOutput:
    """A file that processes which have ended wrote to. `offset`: bytes of it that others had written before, as long as
    it is the file of that `inode` (None: whichever it is). `uid`: whose file it must be."""

    path: str
    rank: int | None = None
    offset: int = 0
    inode: int | None = None
    uid: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """What the instance's supervisor has written down of processes that have ended. Their numbers may be others' by
    now: nothing of /proc is theirs.

    `began`: unix seconds of the incarnation's start. `supervisor`: its pid. `said`: the rest, as
    `platform/supervisor.json` has it. `silent`: its output went where nobody can read it again. `story`: how it ended,
    a sentence.
    """

    processes: tuple[ProcessOfInstance, ...]
    began: float
    supervisor: int
    outputs: tuple[LeftOutput, ...] = ()
    said: Mapping[str, object] = field(default_factory=dict, repr=False)
    silent: bool = False
    story: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """One instance on this node. `name`, `deployment`, `incarnation` as in DESIGN, "Words".

    `processes`: that could be seen; none where it is known by its supervisor's record alone (`ended`).

    `engine`: vllm, sglang, tensorrt-llm, torch, ... or None; `world_size`: ranks on all nodes, None when unknown.
    `nccl_loaded`: whether a process has NCCL's library mapped; None when that could not be looked at.
    `metrics_urls`: where the engine's metrics page may be asked for, likeliest first.
    `log_folders`: folders with logs that belong to the instance (Ray's session folder, --log-dir).
    `found_by`: how it was found, one word a way: pid, environment, name, nvml, ray.
    `agreed`: all nodes of the instance know this incarnation by the same words.
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
    ended: Ended | None = None
    agreed: bool = False

    @property
    def gone(self) -> tuple[ProcessOfInstance, ...]:
        """Processes that nobody sees any more and the supervisor has known, ranks first."""
        return self.ended.processes if self.ended is not None else ()

    @property
    def workers(self) -> tuple[ProcessOfInstance, ...]:
        """The processes that have a rank or a GPU, by rank."""
        found = [process for process in self.processes if process.role is Role.WORKER or process.rank is not None]
        return tuple(sorted(found, key=lambda process: (process.rank is None, process.rank or 0, process.pid)))

    def setting(self, *names: str) -> str | None:
        """The first of these variables that any process of the instance has set, workers first, those gone last."""
        others = [process for process in self.processes if process not in self.workers]
        for name in names:
            for process in (*self.workers, *others, *self.gone):
                if name in process.environ:
                    return process.environ[name]
        return None
