"""What a synthetic job is, when it is looked at and how its dumps are written: one frozen value, all of it plain."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

START_NS = 1_795_980_000_000_000_000
"""Unix time of the first simulated call, in ns; any day would do, and the captured cases are of that week."""


class Style(str, Enum):
    """Whose groups and programs: how they name them, what they call, whether sends are batched."""

    MEGATRON = "megatron"
    VLLM = "vllm"
    SGLANG = "sglang"


class Form(str, Enum):
    """How dumps are written."""

    PICKLE = "pickle"
    JSON = "json"


class Backend(str, Enum):
    """Whose recorder: with events (nccl), or with nothing but `retired` (gloo, nccl2)."""

    NCCL = "nccl"
    GLOO = "gloo"
    NCCL2 = "nccl2"


class Look(str, Enum):
    """When dumps are taken: at the time-out of a job that stands, in the middle of one that moves, after its end."""

    HUNG = "hung"
    LIVE = "live"
    IDLE = "idle"


class FaultKind(str, Enum):
    """What goes wrong. Every kind but the slow ones makes the job stand still."""

    NONE = "none"
    HOST_STOP = "host-stop"  # the host makes no further call
    DEAD = "dead"  # the same, and it leaves no dump
    GPU_STALL = "gpu-stall"  # the call is enqueued, its GPU never comes to it
    NO_FINISH = "no-finish"  # its peers finish the call, it does not
    WRONG_OP = "wrong-op"
    WRONG_SIZE = "wrong-size"
    WRONG_DTYPE = "wrong-dtype"
    SKIP = "skip"  # one call left out
    SWAP = "swap"  # two calls of different groups in the other order
    MISSING_SEND = "missing-send"
    MISSING_RECV = "missing-recv"
    UNEVEN = "uneven"  # its list of an uneven all-to-all disagrees with every peer's
    UNEVEN_PAIR = "uneven-pair"  # ... with one peer's
    TRANSPORT = "transport"  # all entered, nobody leaves
    SLOW = "slow"  # its host is late at every call
    SLOW_TAIL = "slow-tail"  # ... at some calls


SLOW_KINDS = (FaultKind.SLOW, FaultKind.SLOW_TAIL)


class Where(str, Enum):
    """The kind of group in which the fault shows first."""

    ANY = "any"
    WORLD = "world"
    TP = "tp"
    DP = "dp"
    EP = "ep"
    PP = "pp"


@dataclass(frozen=True, slots=True)
class Fault:
    """`rank` None: drawn by the seed. `since`: for slow kinds, the share of the run before it begins.

    `tolerated`: how many calls later than the first that does not match its group stops (NCCL compares nothing).
    """

    kind: FaultKind = FaultKind.NONE
    rank: int | None = None
    where: Where = Where.ANY
    since: float = 0.0
    tolerated: int = 0
    slow_us: int = 3000


@dataclass(frozen=True, slots=True)
class Settings:
    """World size is tp x pp x dp; `ep` groups lie inside a stage, on neighbouring ranks, as Megatron lays them out."""

    tp: int = 8
    pp: int = 1
    dp: int = 1
    ep: int = 1
    style: Style = Style.MEGATRON
    layers: int = 4
    entries: int = 2000  # of the ring buffer, per rank
    wrapped: bool = True  # earlier calls have filled the buffer before the window begins
    steps: int | None = None  # simulated ones; None: as many as fill the buffer (wrapped) or half of it
    frames: int = 30  # per stack; 0: none
    timing: bool = False
    version: str = "2.10"
    backend: Backend = Backend.NCCL
    form: Form = Form.PICKLE
    only_active: bool = False
    hashed: bool = False  # names of groups are 40 hex digits
    gaps: bool = True  # CUDA-graph capture takes numbers without entries
    ahead: int = 48  # calls that a host enqueues before its GPU
    ahead_differs: bool = False  # ... at most: each rank has its own number
    world_messages: bool = False  # sends and receives go through default_pg, beside its collectives
    timeout_ms: int = 600_000
    ranks_per_host: int = 8
    clock_offset_s: float = 0.0  # largest offset of a host's clock
    look: Look = Look.HUNG
    look_spread_s: float = 0.05  # dumps of one look are taken within this time
    look_times: bool = True  # a manifest says when
    fault: Fault = field(default_factory=Fault)
    missing: int = 0  # dumps of innocent ranks that nobody has
    stale: int = 0  # dumps of innocent ranks that are of an earlier run
    damaged: int = 0  # dumps of innocent ranks that end early
    older: int = 0  # dumps of innocent ranks that were taken earlier in the same run
    seed: int = 0

    @property
    def ranks(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def minor(self) -> int:
        """The schema's minor version, a number: 2.10 is newer than 2.9."""
        return int(self.version.split(".")[1])

    @property
    def has_events(self) -> bool:
        return self.backend is Backend.NCCL
