"""The Flight Recorder plane: one dump per rank, its entries as columns from the first day."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.stamp import Stamp

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class State(IntEnum):
    """The `state` column."""

    UNKNOWN = 0
    SCHEDULED = 1
    STARTED = 2
    COMPLETED = 3


@dataclass(frozen=True, slots=True)
class FlightGroup:
    """A process group as one rank's dump knows it. `members` is None where the dump's table is absent or broken."""

    name: str
    desc: str
    members: tuple[int, ...] | None
    pg_id: int | None = None


@dataclass(frozen=True, slots=True)
class PgStatus:
    """`pg_status` of one local process group id; -1: none. Collectives and p2p share the counters."""

    last_enqueued: int
    last_started: int
    last_completed: int


@dataclass(frozen=True, slots=True, eq=False)
class FlightColumns:
    """All entries of one dump; every array has shape (entries,), in the order of the dump.

    Interned columns hold indexes into `groups`, `ops`, `sizes`, `dtypes` and `stacks`; -1 means absent.
    """

    record_id: Ints
    group: Ints  # -> groups
    pg_id: Ints
    seq: Ints  # collective_seq_id
    p2p_seq: Ints
    op_id: Ints
    op: Ints  # -> ops, the profiling name with its backend prefix, e.g. "nccl:all_reduce"
    created_ns: Ints  # host wall clock, ns since the epoch
    started_ns: Ints  # 0: unknown
    completed_ns: Ints  # 0: unknown
    duration_ms: Floats  # NaN: unknown
    state: Ints  # State
    retired: Flags
    is_p2p: Flags
    timeout_ms: Ints
    in_sizes: Ints  # -> sizes
    out_sizes: Ints
    in_dtypes: Ints  # -> dtypes
    out_dtypes: Ints
    stack: Ints  # -> stacks
    groups: tuple[FlightGroup, ...]
    ops: tuple[str, ...]
    sizes: tuple[tuple[tuple[int, ...], ...], ...]
    dtypes: tuple[tuple[str, ...], ...]
    stacks: tuple[tuple[str, ...], ...]  # "name file:line", innermost first

    def __len__(self) -> int:
        return len(self.record_id)

    @property
    def newest_ns(self) -> int:
        """The newest time of any entry, ns since the epoch; 0 where there is no entry."""
        if not len(self):
            return 0
        return max(int(stamps.max()) for stamps in (self.created_ns, self.started_ns, self.completed_ns))


@dataclass(frozen=True, slots=True, eq=False)
class FlightDump:
    """One dump. `rank` comes from the file's name or the manifest: a dump of a single group holds none.

    `version`: schema as (major, minor). `time`: when it was written where that is known from outside.
    `form`: "pickle" or "json". `only_active`: it holds no finished entry, by request. `cut`: the file ends early or is
    damaged, so that later entries may have been lost.
    """

    source: str
    rank: int | None
    host: str | None
    form: str
    version: tuple[int, int]
    comm_lib_version: str | None
    columns: FlightColumns
    status: dict[str, PgStatus]  # by local pg id
    time: Stamp | None = None
    only_active: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A rank was asked for a dump through its pipe. Times in unix seconds; `written` None: none came."""

    source: str
    rank: int | None
    asked: float
    written: float | None
