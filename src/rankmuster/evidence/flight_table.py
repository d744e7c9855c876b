"""From a dump's entries to columns: one pass, one transient mapping at a time, texts and sizes interned."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankmuster.evidence.flight_members import members_of
from rankmuster.model.flight import CallField, FlightColumns, FlightGroup, PgStatus, State

MAX_NAME = 512
"""Characters of a name kept; profiling names and group names are far shorter (a sha1 has 40)."""

MAX_FRAMES = 64
"""Frames of a stack kept, innermost first; torch's own take up a dozen."""

MAX_ITEMS = 10_000_000
"""Sizes, dtypes and dimensions taken from one dump. A pickle can share one long list between all its entries, at two
bytes a time; the largest honest dump known (2000 list all-to-alls of 1024 ranks) holds 8 million."""

_INT64 = 1 << 63
_STATES = {"scheduled": State.SCHEDULED, "started": State.STARTED, "completed": State.COMPLETED}
_NUMBER = re.compile(r"-?\d{1,9}")
_DIGITS = re.compile(r"-?\d+")

INTEGER_FIELDS = (
    ("record_id", "record_id"),
    ("seq", "collective_seq_id"),
    ("p2p_seq", "p2p_seq_id"),
    ("op_id", "op_id"),
    ("created_ns", "time_created_ns"),
    ("started_ns", "time_discovered_started_ns"),
    ("completed_ns", "time_discovered_completed_ns"),
)
ZERO_WHEN_ABSENT = {"created_ns", "started_ns", "completed_ns"}


class _Interner:
    """Distinct values in order of appearance, and their indexes."""

    def __init__(self) -> None:
        self.index: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.index.setdefault(value, len(self.index))

    def values(self) -> tuple[Any, ...]:
        return tuple(self.index)


def integer(value: Any, absent: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        usable = math.isfinite(value) if isinstance(value, float) else bool(_NUMBER.fullmatch(text(value)))
        if not usable or value is None:
            return absent
        value = int(value)
    return value if -_INT64 <= value < _INT64 else absent


def text(value: Any) -> str:
    """A name as text, cut at `MAX_NAME`; numbers as written, anything else as nothing."""
    if isinstance(value, str):
        return value[:MAX_NAME]
    return str(value) if isinstance(value, int) and -_INT64 <= value < _INT64 else ""


def _frame(value: Any) -> str:
    if not isinstance(value, Mapping):
        return text(value)
    return f"{text(value.get('name'))} {text(value.get('filename'))}:{integer(value.get('line'), 0)}"


def state_of(value: Any) -> State:
    """An entry's state; what torch does not write is unknown."""
    return _STATES.get(value, State.UNKNOWN) if isinstance(value, str) else State.UNKNOWN


def duration_of(value: Any) -> float:
    """A duration in ms; NaN where there is none, or none that can be."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if usable else math.nan


def cost_of(entry: Mapping[Any, Any]) -> int:
    """Items that the entry takes from the allowance."""
    cost = 0
    for key in ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes"):
        value = entry.get(key)
        if isinstance(value, (list, tuple)):
            cost += len(value)
            if key.endswith("sizes"):
                cost += sum(len(shape) for shape in value if isinstance(shape, (list, tuple)))
    return cost


def _column(values: Any, dtype: Any) -> NDArray[Any]:
    """A read-only column; one of a single value holds it once."""
    data = bytes(values)
    width = np.dtype(dtype).itemsize
    count = len(data) // width
    if count > 1 and data[width:] == data[:-width]:
        once: NDArray[Any] = np.ndarray((count,), dtype, data[:width], 0, (0,))
        return once
    return np.frombuffer(data, dtype=dtype)


class ColumnBuilder:
    """Takes entries one at a time and holds columns only."""

    def __init__(self) -> None:
        self.integers = {name: array("q") for name, _ in INTEGER_FIELDS}
        self.call = array("i")
        self.stack = array("i")
        self.state = array("b")
        self.durations = array("d")
        self.retired = bytearray()
        self.calls = _Interner()
        self.groups = _Interner()
        self.ops = _Interner()
        self.sizes = _Interner()
        self.dtypes = _Interner()
        self.stacks = _Interner()
        self.last_pg_id: dict[int, int] = {}
        self.frame_cache: dict[tuple[int, ...], int] = {}
        self.kept: list[Any] = []
        self.items = MAX_ITEMS

    def add(self, entry: Mapping[str, Any]) -> None:
        """One entry of the dump; absent and odd values become unknown, never an error."""
        for name, key in INTEGER_FIELDS:
            absent = 0 if name in ZERO_WHEN_ABSENT else -1
            value = entry.get(key)
            self.integers[name].append(
                value if type(value) is int and -_INT64 <= value < _INT64 else integer(value, absent)
            )
        self.call.append(self.call_of(entry))
        self.stack.append(self.stack_of(entry.get("frames")))
        self.state.append(state_of(entry.get("state")))
        self.durations.append(duration_of(entry.get("duration_ms")))
        self.retired.append(entry.get("retired") is True)

    def call_of(self, entry: Mapping[str, Any]) -> int:
        """The index of what the entry shares with others of its kind."""
        group = entry.get("process_group")
        if isinstance(group, (list, tuple)) and len(group) >= 2:
            own = self.groups((text(group[0]), text(group[1])))
        else:
            own = self.groups((text(entry.get("pg_name")), ""))
        pg_id = self.last_pg_id[own] = integer(entry.get("pg_id"), -1)
        return self.calls(
            (
                own,
                pg_id,
                self.ops(text(entry.get("profiling_name"))),
                self.sizes(self._shapes(entry.get("input_sizes"))),
                self.sizes(self._shapes(entry.get("output_sizes"))),
                self.dtypes(self._texts(entry.get("input_dtypes"))),
                self.dtypes(self._texts(entry.get("output_dtypes"))),
                int(entry.get("is_p2p") is True),
                integer(entry.get("timeout_ms"), -1),
            )
        )

    def _take(self, value: Any) -> Sequence[Any]:
        """`value` if it is a list that the dump's allowance still holds, else an empty one."""
        if not isinstance(value, (list, tuple)) or len(value) > self.items:
            return ()
        self.items -= len(value)
        return value

    def _shapes(self, value: Any) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(integer(item, -1) for item in self._take(shape)) for shape in self._take(value))

    def _texts(self, value: Any) -> tuple[str, ...]:
        return tuple(text(item) for item in self._take(value))

    def stack_of(self, frames: Any) -> int:
        """The index of an entry's stack; -1: none."""
        if not isinstance(frames, (list, tuple)) or not frames:
            return -1
        # Frame dicts are shared through the pickle's memo: their identity is a cheap key while they are kept alive.
        frames = frames[:MAX_FRAMES]
        key = tuple(map(id, frames))
        found = self.frame_cache.get(key)
        if found is None:
            self.kept.append(frames)
            found = self.frame_cache[key] = self.stacks(tuple(_frame(frame) for frame in frames))
        return found

    def build(self, config: Mapping[tuple[str, str], tuple[int, ...] | None]) -> FlightColumns:
        """The columns; `config` gives the members per (name, desc) as the dump's table has them."""
        groups = tuple(
            FlightGroup(name, desc, config.get((name, desc)), self.last_pg_id[index])
            for index, (name, desc) in enumerate(self.groups.values())
        )
        return FlightColumns(
            **{name: _column(column, np.int64) for name, column in self.integers.items()},
            call=_column(self.call, np.int32),
            duration_ms=_column(self.durations, np.float64),
            state=_column(self.state, np.int8),
            retired=_column(self.retired, np.bool_),
            stack=_column(self.stack, np.int32),
            calls=np.array(self.calls.values(), dtype=np.int64).reshape(-1, len(CallField)),
            groups=groups,
            ops=self.ops.values(),
            sizes=self.sizes.values(),
            dtypes=self.dtypes.values(),
            stacks=self.stacks.values(),
        )


def group_table(value: Any) -> dict[tuple[str, str], tuple[int, ...] | None]:
    """`pg_config` as (name, desc) -> members; gloo's is one broken row without names and is left out."""
    table: dict[tuple[str, str], tuple[int, ...] | None] = {}
    if not isinstance(value, Mapping):
        return table
    seen: dict[int, tuple[int, ...] | None] = {}
    for key, row in value.items():
        if not isinstance(row, Mapping):
            continue
        name = text(row.get("name")) or text(key)
        # A pickle can share one long text between all its rows; `value` keeps it alive, and so its identity.
        told = row.get("ranks")
        members = seen[id(told)] if id(told) in seen else seen.setdefault(id(told), members_of(told))
        if name or members:
            table[(name, text(row.get("desc")))] = members
    return table


def status_table(value: Any) -> dict[str, PgStatus]:
    """`pg_status`: numbers in the pickle, texts in JSON."""
    table: dict[str, PgStatus] = {}
    if not isinstance(value, Mapping):
        return table
    for key, row in value.items():
        if isinstance(row, Mapping):
            table[text(key)] = PgStatus(
                integer(row.get("last_enqueued_collective"), -1),
                integer(row.get("last_started_collective"), -1),
                integer(row.get("last_completed_collective"), -1),
            )
    return table


def version_of(value: Any) -> tuple[int, int]:
    """`"2.10"` as (2, 10): compared as integers, for 2.10 is newer than 2.9."""
    parts = text(value).split(".")
    if len(parts) >= 2 and _NUMBER.fullmatch(parts[0]) and _NUMBER.fullmatch(parts[1]):
        return int(parts[0]), int(parts[1])
    return (0, 0)
