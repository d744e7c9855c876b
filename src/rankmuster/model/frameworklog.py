"""The framework-log plane: what torch and the serving engines wrote on stderr and stdout."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.stamp import Stamp


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where a line stands and which process wrote it, as far as prefixes and the file's name tell.

    `rank`: global rank from `[rank3]:`, `(VllmWorker rank=3 ...)`, `MPI_Rank 3` or the file's name; from torch's
    `[Rank 3]` or `[PG ... Rank 3]` only where the group is the default one, or where nothing else tells.
    `worker`: the engine's own name for the process, e.g. "Worker_TP3", "EngineCore_DP0", "DP0 TP3".
    `group_rank`: the rank *within its group* that torch's `[Rank 3]` and `[PG ... Rank 3]` hold.
    `host`: address in the prefix (Ray's `ip=`).
    """

    source: str
    line: int
    rank: int | None
    pid: int | None
    worker: str | None
    stamp: Stamp | None
    group_rank: int | None = None
    host: str | None = None

    @property
    def reference(self) -> str:
        """`nccl/rank2.log#L17`: how findings point at this line."""
        return f"{self.source}#L{self.line}"


@dataclass(frozen=True, slots=True)
class WatchdogTimeout:
    """`Watchdog caught collective operation timeout: WorkNCCL(...) ran for N milliseconds`; gloo's time-outs too."""

    origin: LineOrigin
    group: str | None  # PG GUID or name where said
    group_desc: str | None
    seq: int | None
    op: str | None  # ALLREDUCE, ALLGATHER, ...
    numel_in: int | None
    numel_out: int | None
    timeout_ms: int | None
    ran_ms: int | None
    backend: str | None = None  # nccl, gloo, xccl, ... as the work's class says


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """Last enqueued and completed work of one group as a rank's watchdog or heartbeat monitor said."""

    origin: LineOrigin
    group: str | None
    group_desc: str | None
    last_enqueued: int | None
    last_completed: int | None
    failed_seq: int | None  # "failure detected by watchdog at work sequence id: N"


@dataclass(frozen=True, slots=True)
class DumpNotice:
    """`ProcessGroupNCCL preparing to dump debug info`: a look time. Repeated after a failed first attempt."""

    origin: LineOrigin
    group: str | None
    with_stacks: bool | None
    reason: str | None = None  # "timeout", "exception", "heartbeat", "pipe" where the lines around it say
    signalled_by: int | None = None  # global rank that asked for the dump first; None: this one, or not said
    retry: bool = False  # a first attempt with stacks got stuck: something held this rank's interpreter lock


@dataclass(frozen=True, slots=True)
class DesyncReport:
    """torch's own desync report: a lead, and often wrong (it reads a store that lags by hundreds).

    Its ranks are ranks within the group. Nobody lags in the form "joined but didn't finish": those are `unfinished`.
    """

    origin: LineOrigin
    laggards: tuple[tuple[int, int | None], ...]  # (rank, finished sequence; None: never joined any)
    text: str
    unfinished: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveFingerprint:
    """One side of `Detected mismatch between collectives on ranks` (TORCH_DISTRIBUTED_DEBUG=DETAIL).

    `rank` is the rank within its group; `pair` numbers the message, so that its two sides stay together.
    """

    origin: LineOrigin
    pair: int
    rank: int
    seq: int | None
    op: str
    shape: str | None
    dtype: str | None


class StoreErrorKind(str, Enum):
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    STORE_TIMEOUT = "store_timeout"
    STORE_LOST = "store_lost"  # connection to the store closed, broken pipe: an after-shock of its host's exit
    CONNECT_FAILED = "connect_failed"
    MISSING_MEMBERS = "missing_members"  # "k/n clients joined"
    GLOO_MESH = "gloo_mesh"  # gloo's ranks could not connect to each other
    GLOO_INTERFACE = "gloo_interface"  # the interface that gloo is told to use is not there, or has no address
    PORT_IN_USE = "port_in_use"  # the store's own port is taken: another job, or one that has not ended


@dataclass(frozen=True, slots=True)
class StoreError:
    """Rendezvous and TCPStore errors. `joined`, `expected`: from `k/n clients joined`."""

    origin: LineOrigin
    kind: StoreErrorKind
    text: str
    address: str | None = None
    joined: int | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class PythonException:
    """An uncaught or reported exception: the last line of a traceback, or an engine's report of one.

    `consequence`: its text says that another failure came first (EngineDeadError, "see root cause above", NCCL
    remote errors, a cancelled future).
    `where`: innermost frame, "function file:line".
    """

    origin: LineOrigin
    name: str
    message: str
    where: str | None
    consequence: bool


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """CUDA or host out-of-memory as the framework says it."""

    origin: LineOrigin
    device: str  # "cuda" or "host"
    gpu: int | None
    text: str


@dataclass(frozen=True, slots=True)
class CudaError:
    """A CUDA error of this process: `code` as named (`an illegal memory access was encountered`) or numbered."""

    origin: LineOrigin
    text: str
    code: int | None


@dataclass(frozen=True, slots=True)
class SignalDeath:
    """A process that a signal ended, as itself or its launcher says it."""

    origin: LineOrigin
    signal: int
    victim_rank: int | None
    victim_pid: int | None
    exit_code: int | None
    text: str


@dataclass(frozen=True, slots=True)
class WorkerDeath:
    """An engine or launcher reports the end of one of its processes (vLLM, SGLang, TensorRT-LLM, TGI, torchrun)."""

    origin: LineOrigin
    engine: str  # vllm, sglang, tensorrt-llm, tgi, torchrun, ray, slurm
    worker: str
    rank: int | None
    pid: int | None
    exit_code: int | None
    text: str
    host: str | None = None  # where the process ran, as the reporter says
    first: bool = False  # torchrun's "Root Cause (first observed failure)"


@dataclass(frozen=True, slots=True)
class EngineWatchdog:
    """An engine's own alarm that nothing moves: RPC time-outs, shared-memory waits, scheduler and hang watchdogs."""

    origin: LineOrigin
    engine: str
    rank: int | None
    seconds: float | None
    text: str
    weak: bool = False  # also seen during start-up and compilation


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A periodic statistics line: requests and rates at that time."""

    origin: LineOrigin
    engine: str
    running: int | None
    waiting: int | None
    generation_tokens_per_s: float | None
    prompt_tokens_per_s: float | None


@dataclass(frozen=True, slots=True)
class AbortNotice:
    """torch takes a process down on purpose: an after-shock. `heartbeat`: the watchdog itself was found stuck."""

    origin: LineOrigin
    text: str
    heartbeat: bool = False


class TrafficPath(str, Enum):
    """Paths that carry an engine's bytes; what each is visible to decides what silence means."""

    TORCH_DISTRIBUTED = "torch.distributed"
    PYNCCL = "pynccl"
    CUSTOM_ALL_REDUCE = "custom all-reduce"
    CUDA_GRAPHS = "CUDA graphs"
    SYMMETRIC_MEMORY = "symmetric memory"
    FLASHINFER = "flashinfer"
    NVSHMEM = "NVSHMEM (DeepEP)"
    NIXL = "NIXL"
    UCX = "UCX"
    MPI = "MPI"
    GLOO = "gloo"


@dataclass(frozen=True, slots=True)
class TrafficHint:
    """A line that tells which path this engine uses, e.g. `Capturing CUDA graphs`, `vLLM is using nccl==2.27.5`."""

    origin: LineOrigin
    path: TrafficPath
    text: str
    off: bool = False  # the line says that this path is not used


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread's stack from py-spy, faulthandler, torch or an engine's dump; frames innermost first."""

    origin: LineOrigin
    thread: str
    frames: tuple[str, ...]  # "function (file:line)"
    tool: str  # py-spy, faulthandler, torch, vllm


@dataclass(frozen=True, slots=True)
class LogSpan:
    """First and last stamped line of one process's log: proof of life for that time."""

    source: str
    rank: int | None
    lines: int
    first: Stamp | None
    last: Stamp | None
    engine: str | None  # vllm, sglang, tensorrt-llm, tgi where its lines show it


@dataclass(frozen=True, slots=True)
class GlooSizes:
    """gloo aborts its process: what a peer has sent does not fit into the buffer of the call that waits for it.

    `sent`, `room`: bytes. The rank is `origin.rank`, where the log is one rank's.
    """

    origin: LineOrigin
    sent: int
    room: int
    text: str
