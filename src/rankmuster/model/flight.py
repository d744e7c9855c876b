"""The Flight Recorder plane: one dump per rank, its entries as columns from the first day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.stamp import Stamp

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indexes = NDArray[np.int32]
States = NDArray[np.int8]  # State


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


class CallField(IntEnum):
    """Columns of `FlightColumns.calls`."""

    GROUP = 0  # -> groups
    PG_ID = 1
    OP = 2  # -> ops, the profiling name with its backend prefix, e.g. "nccl:all_reduce"
    IN_SIZES = 3  # -> sizes
    OUT_SIZES = 4
    IN_DTYPES = 5  # -> dtypes
    OUT_DTYPES = 6
    IS_P2P = 7  # 0 or 1
    TIMEOUT_MS = 8


@dataclass(frozen=True, slots=True, eq=False)
class FlightColumns:
    """All entries of one dump; every array has shape (entries,), in the order of the dump, and may be read-only.

    What entries have in common is held once: `call` points into the rows of `calls`, shape (calls, len(CallField)), a
    few dozen for a model's program. Properties give one of its columns per entry. Indexes point into `groups`, `ops`,
    `sizes`, `dtypes` and `stacks`; -1 means absent. A column of one value may be that value, broadcast.
    """

    record_id: Ints
    call: Indexes  # -> calls
    seq: Ints  # collective_seq_id
    p2p_seq: Ints
    op_id: Ints
    created_ns: Ints  # host wall clock, ns since the epoch
    started_ns: Ints  # 0: unknown
    completed_ns: Ints  # 0: unknown
    duration_ms: Floats  # NaN: unknown
    state: States
    retired: Flags
    stack: Indexes  # -> stacks
    calls: Ints
    groups: tuple[FlightGroup, ...]
    ops: tuple[str, ...]
    sizes: tuple[tuple[tuple[int, ...], ...], ...]
    dtypes: tuple[tuple[str, ...], ...]
    stacks: Sequence[tuple[str, ...]]  # "name file:line", innermost first; made when somebody asks

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: a column of one value goes as that value."""
        return _columns, ({name: _packed(getattr(self, name)) for name in self.__dataclass_fields__},)

    def of_calls(self, field: CallField) -> Ints:
        """One column of `calls`, shape (calls,)."""
        column: Ints = self.calls[:, field]
        return column

    def _per_entry(self, field: CallField) -> Ints:
        column: Ints = self.calls[:, field].take(self.call)
        return column

    @property
    def group(self) -> Ints:
        """-> groups, per entry."""
        return self._per_entry(CallField.GROUP)

    @property
    def pg_id(self) -> Ints:
        """The process group's number in its process, per entry."""
        return self._per_entry(CallField.PG_ID)

    @property
    def op(self) -> Ints:
        """-> ops, per entry."""
        return self._per_entry(CallField.OP)

    @property
    def is_p2p(self) -> Flags:
        """Whether torch marked it as a send or receive, per entry."""
        flags: Flags = self._per_entry(CallField.IS_P2P) != 0
        return flags

    @property
    def timeout_ms(self) -> Ints:
        """The group's time-out, per entry; -1 unknown."""
        return self._per_entry(CallField.TIMEOUT_MS)

    @property
    def in_sizes(self) -> Ints:
        """-> sizes, per entry."""
        return self._per_entry(CallField.IN_SIZES)

    @property
    def out_sizes(self) -> Ints:
        """-> sizes, per entry."""
        return self._per_entry(CallField.OUT_SIZES)

    @property
    def in_dtypes(self) -> Ints:
        """-> dtypes, per entry."""
        return self._per_entry(CallField.IN_DTYPES)

    @property
    def out_dtypes(self) -> Ints:
        """-> dtypes, per entry."""
        return self._per_entry(CallField.OUT_DTYPES)

    def op_of(self, entry: int) -> str:
        """The profiling name of one entry, with its backend prefix; `entry` may count from the end."""
        return self.ops[int(self.calls[self.call[entry], CallField.OP])]

    def __len__(self) -> int:
        return len(self.record_id)

    @property
    def newest_ns(self) -> int:
        """The newest time of any entry, ns since the epoch; 0 where there is no entry."""
        if not len(self):
            return 0
        return max(int(stamps.max()) for stamps in (self.created_ns, self.started_ns, self.completed_ns))


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) > 1 and value.strides[0] == 0:
        return _Broadcast(value[0], len(value))
    return value


def _columns(fields: dict[str, Any]) -> FlightColumns:
    for name, value in fields.items():
        if isinstance(value, _Broadcast):
            fields[name] = np.broadcast_to(value.value, value.count)
    return FlightColumns(**fields)


@dataclass(frozen=True, slots=True)
class _Broadcast:
    """A column of one value on its way to another process."""

    value: Any
    count: int


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

    @property
    def from_the_first(self) -> bool:
        """Whether it holds every record from the recorder's first on: nothing overwritten, nothing left out."""
        columns = self.columns
        return len(columns) > 0 and not self.only_active and int(columns.record_id[0]) <= 0


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A rank was asked for a dump through its pipe. Times in unix seconds; `written` None: none came."""

    source: str
    rank: int | None
    asked: float
    written: float | None
