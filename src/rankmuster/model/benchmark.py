"""Results of communication benchmarks, of nccl-tests and of the built-in one, in the same units.

Units as nccl-tests has them (doc/PERFORMANCE.md there): sizes in bytes of the whole operation, times in microseconds of
one operation, bandwidths in GB/s of 1e9 bytes. algbw = size / time; busbw = algbw x a factor of the collective for n
ranks: all_reduce 2(n-1)/n, all_gather, reduce_scatter and all_to_all (n-1)/n, broadcast, reduce and send_recv 1.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import Enum


class Operation(str, Enum):
    """What is measured, by the project's names of collectives."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SEND_RECV = "send_recv"

    def bus_factor(self, ranks: int) -> float:
        """busbw / algbw for a group of `ranks`."""
        if self is Operation.ALL_REDUCE:
            return 2 * (ranks - 1) / ranks
        if self in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL):
            return (ranks - 1) / ranks
        return 1.0


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What one measurement is of, within a profile: the key of a distribution."""

    operation: Operation
    size_bytes: int
    dtype: str  # as nccl-tests writes it: float, half, bfloat16, ...
    in_place: bool = False
    graph: bool = False  # replayed from a CUDA graph


@dataclass(frozen=True, slots=True)
class Spread:
    """Over the iterations of one measurement, microseconds; None where the tool did not say."""

    min_us: float | None
    max_us: float | None
    p50_us: float | None
    p99_us: float | None
    cv_percent: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of one tool. `wrong`: elements with a wrong value, None where correctness was not checked (`N/A`).

    `iterations_us`: each iteration, maximum over ranks, where known. `ranks_us`: per rank its mean time of an
    iteration, for the dispersion between ranks; of send_recv and the like it names the slow rank.
    """

    cell: Cell
    time_us: float
    algbw: float
    busbw: float
    wrong: int | None
    spread: Spread | None = None
    iterations_us: tuple[float, ...] = ()
    ranks_us: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchmarkRank:
    """`matmul_us`, `copy_us`: mean time of a fixed multiplication and copy on this GPU alone, before the collectives,
    where the tool measures them: a slow GPU is told from a slow link by them."""

    rank: int
    host: str
    pid: int | None
    device: int
    bus_id: str | None  # normalised dddd:bb:dd
    gpu_model: str | None
    matmul_us: float | None = None
    copy_us: float | None = None


class RunState(str, Enum):
    """How a run ended. Only COMPLETE runs enter a baseline."""

    COMPLETE = "complete"
    CONTENDED = "contended"  # foreign work on a GPU while it ran
    WRONG = "wrong"  # finished with wrong values
    INCOMPLETE = "incomplete"  # ended by itself before its last size
    ERROR = "error"
    HUNG = "hung"  # ended by the time limit
    REFUSED = "refused"  # whole, of a node that was not admitted: it must not drag the baseline towards itself


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """What NCCL chose for one operation and size (its TUNING lines)."""

    operation: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int | None


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One start of one tool. `tool`: "nccl-tests" or "built-in"; `started_at`: unix seconds, None where not said.

    `reason`: why the state is not COMPLETE, or what else is worth knowing. `environment`: NCCL_* and CUDA_* values it
    ran with, nothing else (a captured environment may hold secrets).

    `settings`: what nccl-tests says it was started with: threads, gpus (of a process), warmup_iters, iters, agg_iters,
    validation, graph, unalign, blocking, as numbers in texts, and `redop` of its rows ("sum"). What was not said is not
    in it; of several processes that differ the values stand together ("sum,prod"). `rank_count`: how many ranks were
    measured, where the list names fewer of them, or those of other groups too; see `members`.
    """

    source: str
    tool: str
    tool_version: str | None
    nccl_version: str | None
    started_at: float | None
    state: RunState
    reason: str
    ranks: tuple[BenchmarkRank, ...]
    measurements: tuple[Measurement, ...]
    choices: tuple[AlgorithmChoice, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    transports: tuple[str, ...] = ()  # the `via` words of NCCL's log: P2P/CUMEM, SHM/direct, NET/IB/0/GDRDMA, ...
    channels: int | None = None  # collective channels of the communicator
    command: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    rank_count: int | None = None
    environment_whole: bool = True  # False: a log or table named some of it, or none; what is not in it may be set

    @property
    def members(self) -> int:
        """How many ranks took part, also where the list of ranks has lost some; 0 where nobody knows."""
        return self.rank_count or len(self.ranks)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation over some sizes. `sizes`: bytes, rising; `graph`: replay from a CUDA graph."""

    operation: Operation
    sizes: tuple[int, ...]
    dtype: str = "bfloat16"
    graph: bool = False
    in_place: bool = False
    iterations: int = 50
    warmup: int = 10


@dataclass(frozen=True, slots=True)
class Profile:
    """What is measured: a real load's operations and sizes. `ranks`: GPUs that it needs, None for all of a node."""

    name: str
    description: str
    steps: tuple[Step, ...]
    ranks: int | None = None

    @property
    def key(self) -> str:
        """`name@` and 12 hex digits over the steps: two profiles of one name that measure other things differ."""
        return f"{self.name}@{_digest([asdict(step) for step in self.steps] + [self.ranks])}"


def series_key(profile: Profile, tool: str, ranks: int) -> str:
    """Under what the history keeps results of a profile: `links@0123456789ab/built-in/8`.

    Tools agree on the plateau and not below it: one starts a process for all GPUs, the other one for each. And the same
    size over fewer GPUs is another operation, whose time and bus bandwidth say nothing of the whole node's. What one
    measured is no baseline for the other.
    """
    return f"{profile.key}/{tool}/{ranks}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class HistoryValue:
    """What the history keeps of one measurement."""

    cell: Cell
    time_us: float
    busbw: float
    min_us: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    cv_percent: float | None = None
    rank_spread_percent: float | None = None  # (slowest - fastest rank) / fastest


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run as the history has it. `record`: sha256 over its content, so that it is stored once however often it is
    brought. Times in unix seconds. `state` COMPLETE alone is compared with."""

    record: str
    class_hash: str
    kin_hash: str
    node_hash: str
    host: str | None
    profile: str  # series_key(Profile, tool, ranks)
    tool: str
    started_at: float
    state: RunState
    reason: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    choices: tuple[AlgorithmChoice, ...] = ()
    values: tuple[HistoryValue, ...] = field(default=())
