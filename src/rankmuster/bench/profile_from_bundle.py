"""A profile computed from what an instance did: operations, sizes and types of its Flight Recorder dumps, weighed.

Blind to what leaves no entries there: replays of CUDA graphs (an engine's decode), custom all-reduce kernels, and
communicators that do not go through torch. A profile of such an instance is of its eager part alone, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from rankmuster.diagnose.op_names import op_name
from rankmuster.diagnose.signatures import Signature
from rankmuster.diagnose.slow.bandwidth import message_bytes
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.benchmark import Operation, Profile, Step
from rankmuster.model.collective_names import collective_name
from rankmuster.model.flight import CallField, FlightColumns, FlightDump, Floats

MOST_CELLS = 16
"""Sizes of all steps together, by default: a run of that many takes about a minute."""

LEAST_BYTES = 1024
"""Smaller operations are left out: barriers and counters, whose time is the launch's."""

TIMED_SHARE = 0.5
"""Of the entries that must have durations for time to weigh them; with fewer, what has none would weigh nothing."""

BUCKETS = 4
"""Sizes within a quarter of a power of two are one, where there are too many: prompts of all lengths."""

_DTYPES = {
    "BFloat16": "bfloat16",
    "Half": "half",
    "Float": "float",
    "Double": "double",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "uint8",
    "Int": "int32",
    "UInt32": "uint32",
    "Long": "int64",
    "UInt64": "uint64",
}
"""torch's names of types by nccl-tests' names; eight-bit floats are moved as bytes by everything but a reduction."""

_OPERATIONS = {"send": Operation.SEND_RECV} | {one.value: one for one in Operation}


class Weight(str, Enum):
    """What makes an operation matter."""

    TIME = "time"
    COUNT = "count"


class NothingRecorded(Exception):
    """The evidence holds no operation that a profile can have; the message says what it holds instead."""


@dataclass(frozen=True, slots=True)
class Computed:
    """`notes`: how it was made and what it leaves out, for people."""

    profile: Profile
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Cell:
    """One operation, type and size. `milliseconds`: of the entries that have a duration (`timed` of them)."""

    operation: Operation
    dtype: str
    size: int
    count: int = 0
    timed: int = 0
    milliseconds: float = 0.0


@dataclass
class _Tally:
    cells: dict[tuple[Operation, str, int], _Cell] = field(default_factory=dict)
    members: dict[int, int] = field(default_factory=dict)
    small: int = 0
    other: dict[str, int] = field(default_factory=dict)


def profile_of(evidence: Evidence, *, name: str, weight: Weight | None = None, most: int = MOST_CELLS) -> Computed:
    """The heaviest operations of all ranks' dumps as a profile. `weight` None: time where entries have durations.

    `most`: sizes of all steps together. Raises NothingRecorded.
    """
    tally = _Tally()
    dumps = _newest(evidence.of(FlightDump))
    for dump in dumps:
        _count(dump.columns, tally)
    if not tally.cells:
        raise NothingRecorded(_nothing(dumps, tally))
    timed = sum(cell.timed for cell in tally.cells.values())
    entries = sum(cell.count for cell in tally.cells.values())
    by = weight or (Weight.TIME if timed >= TIMED_SHARE * entries else Weight.COUNT)
    if by is Weight.TIME and not timed:
        raise NothingRecorded("no entry has a duration; weigh by count, or record with TORCH_NCCL_ENABLE_TIMING=1")
    cells = _grouped(list(tally.cells.values()), by, most)
    chosen = sorted(cells, key=lambda cell: (-_weight(cell, by), cell.operation.value, cell.size))[:most]
    total = sum(_weight(cell, by) for cell in cells)
    covered = sum(_weight(cell, by) for cell in chosen) / total if total > 0 else 0.0
    notes = (
        f"computed from {len(dumps)} Flight Recorder dumps with {entries} operations, weighed by {by.value}; its "
        f"{len(chosen)} sizes are {covered:.1%} of it",
        *_left_out(tally),
        "not in it: what leaves no entries (replays of CUDA graphs, custom all-reduce, communicators outside torch)",
    )
    description = f"Computed from {len(dumps)} Flight Recorder dumps: the operations that weigh most by {by.value}."
    return Computed(Profile(name, description, _steps(chosen)), notes)


def _newest(dumps: Iterable[FlightDump]) -> list[FlightDump]:
    """One dump a rank: of two looks the later one, which holds most of the earlier one's entries too."""
    found: dict[object, FlightDump] = {}
    for dump in dumps:
        key = dump.rank if dump.rank is not None else dump.source
        if len(dump.columns) and (key not in found or dump.columns.newest_ns > found[key].columns.newest_ns):
            found[key] = dump
    return list(found.values())


def _count(columns: FlightColumns, tally: _Tally) -> None:
    """Adds one dump's entries, call by call: entries of one call have all but their times in common."""
    milliseconds = _durations(columns)
    known = np.isfinite(milliseconds)
    counts = np.bincount(columns.call, minlength=len(columns.calls))
    timed = np.bincount(columns.call[known], minlength=len(columns.calls))
    spent = np.bincount(columns.call[known], weights=milliseconds[known], minlength=len(columns.calls))
    for call in np.flatnonzero(counts).tolist():
        signature = _signature(columns, call)
        named = op_name(columns.ops[int(columns.calls[call, CallField.OP])])
        operation = _OPERATIONS.get(collective_name(signature.op))
        if operation is None or named.backend == "gloo" or named.ends_batch:
            if collective_name(signature.op) not in ("recv", "barrier") and not named.ends_batch:
                tally.other[signature.op] = tally.other.get(signature.op, 0) + int(counts[call])
            continue
        size = _size(operation, signature)
        dtype = _dtype(signature)
        if size is None or dtype is None or size < LEAST_BYTES:
            tally.small += int(counts[call])
            continue
        cell = tally.cells.setdefault((operation, dtype, size), _Cell(operation, dtype, size))
        cell.count += int(counts[call])
        cell.timed += int(timed[call])
        cell.milliseconds += float(spent[call])
        group = int(columns.calls[call, CallField.GROUP])
        members = columns.groups[group].members if 0 <= group < len(columns.groups) else None
        if members:
            tally.members[len(members)] = tally.members.get(len(members), 0) + int(counts[call])


def _durations(columns: FlightColumns) -> Floats:
    """Milliseconds of each entry: as the device measured it, else as the watchdog saw it start and complete."""
    seen = (columns.completed_ns - columns.started_ns) / 1e6
    usable = (columns.started_ns > 0) & (columns.completed_ns >= columns.started_ns)
    found: Floats = np.where(np.isfinite(columns.duration_ms), columns.duration_ms, np.where(usable, seen, math.nan))
    return found


def _signature(columns: FlightColumns, call: int) -> Signature:
    def of(fields: CallField, table: tuple[object, ...]) -> object:
        index = int(columns.calls[call, fields])
        return table[index] if 0 <= index < len(table) else ()

    return Signature(
        op_name(columns.ops[int(columns.calls[call, CallField.OP])]).base,
        of(CallField.IN_SIZES, columns.sizes),  # type: ignore[arg-type]
        of(CallField.OUT_SIZES, columns.sizes),  # type: ignore[arg-type]
        of(CallField.IN_DTYPES, columns.dtypes),  # type: ignore[arg-type]
        of(CallField.OUT_DTYPES, columns.dtypes),  # type: ignore[arg-type]
    )


def _size(operation: Operation, signature: Signature) -> int | None:
    # a message is counted like a broadcast's: the whole tensor
    return message_bytes(replace(signature, op="broadcast") if operation is Operation.SEND_RECV else signature)


def _dtype(signature: Signature) -> str | None:
    said = (signature.in_dtypes or signature.out_dtypes or ("",))[0]
    return "uint8" if said.startswith("Float8") else _DTYPES.get(said)


def _weight(cell: _Cell, by: Weight) -> float:
    return cell.milliseconds if by is Weight.TIME else float(cell.count)


def _grouped(cells: list[_Cell], by: Weight, most: int) -> list[_Cell]:
    """Near sizes as one, where there are more than can be measured; it stands at the heaviest of them."""
    if len(cells) <= most:
        return cells
    found: dict[tuple[Operation, str, int], list[_Cell]] = {}
    for cell in cells:
        bucket = math.floor(math.log2(cell.size) * BUCKETS + 0.5)
        found.setdefault((cell.operation, cell.dtype, bucket), []).append(cell)
    grouped: list[_Cell] = []
    for near in found.values():
        heaviest = max(near, key=lambda cell: (_weight(cell, by), cell.size))
        grouped.append(
            _Cell(
                heaviest.operation,
                heaviest.dtype,
                heaviest.size,
                sum(cell.count for cell in near),
                sum(cell.timed for cell in near),
                sum(cell.milliseconds for cell in near),
            )
        )
    return grouped


def _steps(cells: list[_Cell]) -> tuple[Step, ...]:
    """One step an operation and type, the heaviest first; its sizes rise."""
    found: dict[tuple[Operation, str], list[int]] = {}
    for cell in cells:
        found.setdefault((cell.operation, cell.dtype), []).append(cell.size)
    return tuple(Step(operation, tuple(sorted(sizes)), dtype) for (operation, dtype), sizes in found.items())


def _left_out(tally: _Tally) -> Iterable[str]:
    if tally.members:
        sizes = ", ".join(f"{members} ranks" for members in sorted(tally.members))
        yield f"its groups have {sizes}; the profile is measured over all GPUs that it is given"
    if tally.small:
        yield f"{tally.small} operations below {LEAST_BYTES} bytes or of unknown size are left out"
    if tally.other:
        yield f"left out, since no benchmark has them: {', '.join(sorted(tally.other)[:8])}"


def _nothing(dumps: list[FlightDump], tally: _Tally) -> str:
    if not dumps:
        return (
            "there is no Flight Recorder dump in it; a profile is computed from those (rankmuster collect takes them)"
        )
    held = f"{tally.small} operations below {LEAST_BYTES} bytes" if tally.small else "no operation that a benchmark has"
    return f"its {len(dumps)} Flight Recorder dumps hold {held}"
