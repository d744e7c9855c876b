"""The NCCL RAS plane: what `STATUS` and `MONITOR` said, poll by poll (grammar: NCCL src/ras/client_support.cc)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.stamp import Stamp

OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
"""The five operations that NCCL counts; everything else is invisible to RAS."""

ANY_OPERATION = "collective"
"""Stands in for the operation in reports of NCCL 2.24 and 2.25, which count all of them together."""


@dataclass(frozen=True, slots=True)
class RasProcess:
    """A process as RAS names it. `host` is the numeric address of its bootstrap interface."""

    host: str | None
    pid: int | None
    gpus: tuple[int, ...] = ()  # CUDA indexes
    nvml_gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RasRank:
    """A rank of one communicator that answered. `rank` is communicator-local, as always in RAS.

    `counts`: launched operations per name of `OPERATIONS` (or `ANY_OPERATION`); only what the reply says of this very
    rank, so text reports, which list outliers alone, leave it empty for most ranks.
    """

    rank: int
    host: str | None
    pid: int | None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    status: str | None = None  # INIT, RUNNING, FINALIZE, ABORT, NOCOMM, UNKNOWN
    async_error: str | None = None  # the name of the ncclResult; None: none
    counts: Mapping[str, int] = field(default_factory=dict)
    init_error: str | None = None  # the name of the ncclResult with which its initialisation failed


@dataclass(frozen=True, slots=True)
class RasMissingRank:
    """A rank of one communicator of which RAS has no data.

    `unresponsive`: its process did not answer (True), answered without this communicator (False), not said (None).
    `considered_dead`: RAS gave its process up for good.
    """

    rank: int
    host: str | None
    pid: int | None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    unresponsive: bool | None = None
    considered_dead: bool | None = None


@dataclass(frozen=True, slots=True)
class RasMajority:
    """`ranks` ranks of the communicator (not named one by one in the text) launched up to `count`; 0: none yet."""

    count: int
    ranks: int


@dataclass(frozen=True, slots=True)
class RasCommunicator:
    """One communicator in one poll.

    `hash`: ncclComm commHash as an int (text pads it, JSON does not). `size`: ranks in the communicator, None unknown.
    `ranks`: those that are named. `status`, `errors`: the columns of the table (text only).
    `majorities`: per operation what unnamed ranks launched (text only). `status_majorities`, `error_majorities`: how
    many unnamed ranks have a status, or reported an ncclResult (text only).
    A rank whose process answered without this communicator is in `missing` with `unresponsive` False, in text and JSON
    alike, and counts in `missing_count`; text names it in `ranks` too, with status NOCOMM (UNKNOWN before NCCL 2.26).
    """

    hash: int
    size: int | None
    ranks: tuple[RasRank, ...] = ()
    missing: tuple[RasMissingRank, ...] = ()
    missing_count: int = 0
    secondary_hash: str | None = None
    status: str | None = None
    errors: tuple[str, ...] = ()
    majorities: Mapping[str, tuple[RasMajority, ...]] = field(default_factory=dict)
    status_majorities: Mapping[str, int] = field(default_factory=dict)
    error_majorities: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RasGroup:
    """A row of the text report's table: `communicators` communicators of the same shape."""

    index: int
    communicators: int
    ranks_per_communicator: int
    ranks_in_group: int
    status: str
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RasPoll:
    """One reply (or the lack of one) to STATUS or VERBOSE STATUS.

    `time`: when it was asked, from the manifest or the file's name. `stamp`: the reply's own local time (JSON only).
    `node`: which node was asked (from the file's name), None unknown. `answered`: False where no reply came; `error`
    then says why. `corrupt`: reasons why nothing in this reply may be believed; empty for a sound one.
    `truncated`: it ends before its end. `processes_total`: of the job, None unknown.
    """

    source: str
    time: Stamp | None
    node: str | None
    form: str  # "text", "json" or "none"
    answered: bool = True
    error: str | None = None
    nccl_version: str | None = None
    stamp: Stamp | None = None
    nodes: int | None = None
    processes_total: int | None = None
    groups: tuple[RasGroup, ...] = ()
    communicators: tuple[RasCommunicator, ...] = ()
    no_communicators: bool = False  # "No communicator data collected!", or an empty list in JSON
    missing_processes: tuple[RasProcess, ...] = ()
    missing_process_count: int = 0
    dead_processes: tuple[RasProcess, ...] = ()
    dead_process_count: int = 0
    timeouts: int = 0
    collection_seconds: float | None = None
    corrupt: tuple[str, ...] = ()
    truncated: bool = False
    gpus_total: int | None = None  # GPUs that the job's processes manage (text only)


@dataclass(frozen=True, slots=True)
class RasEvent:
    """One event of the MONITOR stream (NCCL 2.29.2 and later)."""

    source: str
    line: int
    stamp: Stamp | None
    event: str  # PEER_DEAD, PEER_UNRESPONSIVE, ...
    peer: RasProcess | None
    details: str
