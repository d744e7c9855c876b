"""Model values as the tables hold them, and back; checked on the way in, for they come from files of failing nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from rankmuster.model.benchmark import AlgorithmChoice, Cell, HistoryRun, HistoryValue, Operation
from rankmuster.model.unknown import Unknown
from rankmuster.store.errors import Refused

MOST_TEXT = 4000
"""Characters of a reason or a note; more is cut, since nobody reads on."""

MOST_BYTES = (1 << 63) - 1

LATEST = 4_102_444_800.0
"""2100-01-01 in unix seconds: what is after it is no clock's time, but milliseconds or worse. Who brings a run says
whether it is older than GPUs, or in the future (`history add`): a table knows no present."""

CELL_NAMES = ("operation", "size_bytes", "dtype", "in_place", "graph")
"""Columns that make a cell, in the order of `Cell`."""

VALUE_NUMBERS = ("time_us", "busbw", "min_us", "p50_us", "p99_us", "cv_percent", "rank_spread_percent")
"""Columns of a result beside its cell, in the order of the table."""

NEEDED = ("time_us", "busbw")
"""Of these, what every result has."""

CellKey = tuple[str, int, str, bool, bool]


def sound(text: str, limit: int = MOST_TEXT) -> str:
    """A text that UTF-8 and PostgreSQL can hold: no lone surrogates, no NUL."""
    return text[:limit].encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def checked_hash(value: str, what: str, record: str) -> str:
    """A hash that may be compared with. Raises Refused for what is unknown: it equals nothing."""
    if not value or value.startswith("unknown") or sound(value) != value:
        raise Refused(
            f"the run {record[:20]} cannot be stored: its {what} is {value[:80] or 'empty'!r}, and what is unknown "
            "equals nothing; take the fingerprint again where everything can be read"
        )
    return value


def check_run(run: HistoryRun) -> None:
    """Raises Refused for a run that no history can hold, naming the part."""
    for text, what in (
        (run.record, "record"),
        (run.class_hash, "class hash"),
        (run.kin_hash, "kin hash"),
        (run.node_hash, "node hash"),
        (run.profile, "profile"),
    ):
        checked_hash(text, what, run.record)
    if not 0 <= run.started_at <= LATEST:
        raise Refused(f"the run {run.record[:20]} cannot be stored: its start is no time of a run ({run.started_at})")
    for value in run.values:
        check_value(value, run.record)


def check_value(value: HistoryValue, record: str) -> None:
    """Raises Refused for a result whose size or numbers are none; a time and a bus bandwidth have to be there."""
    if not 0 <= value.cell.size_bytes <= MOST_BYTES:
        raise Refused(f"the run {record[:20]} cannot be stored: a size of {value.cell.size_bytes} bytes")
    for name in VALUE_NUMBERS:
        number = getattr(value, name)
        if number is None and name not in NEEDED:
            continue
        if not isinstance(number, (int, float)) or not math.isfinite(number):
            raise Refused(
                f"the run {record[:20]} cannot be stored: {name} of {value.cell.operation.value} with "
                f"{value.cell.size_bytes} bytes is no number ({number})"
            )
        if number < 0 or (name == "time_us" and number == 0):
            raise Refused(
                f"the run {record[:20]} cannot be stored: {name} of {value.cell.operation.value} with "
                f"{value.cell.size_bytes} bytes is {number:g}, which nothing measures"
            )


def cell_key(cell: Cell) -> CellKey:
    """A cell as its table has it."""
    return cell.operation.value, cell.size_bytes, sound(cell.dtype), cell.in_place, cell.graph


def cell_of(operation: str, size_bytes: int, dtype: str, in_place: Any, graph: Any) -> Cell:
    """Back. Raises ValueError for an operation that nobody knows."""
    return Cell(Operation(operation), int(size_bytes), dtype, bool(in_place), bool(graph))


def numbers_of(value: HistoryValue) -> tuple[float | None, ...]:
    """The numbers of a result in the order of `VALUE_NUMBERS`."""
    return tuple(getattr(value, name) for name in VALUE_NUMBERS)


def settings_text(settings: Mapping[str, Any] | Iterable[tuple[str, str]]) -> str:
    """Settings as JSON, the same text for the same settings."""
    return json.dumps({sound(name): sound(_word(value)) for name, value in dict(settings).items()}, sort_keys=True)


def _word(value: Any) -> str:
    return f"unknown: {value.reason}" if isinstance(value, Unknown) else str(value)


def settings_of(text: str) -> dict[str, str]:
    """Back, sorted by name."""
    found: dict[str, str] = json.loads(text)
    return dict(sorted(found.items()))


def choices_text(choices: Iterable[AlgorithmChoice]) -> str:
    """NCCL's choices as JSON."""
    return json.dumps(
        [
            [sound(one.operation), one.size_bytes, sound(one.algorithm), sound(one.protocol), one.channels]
            for one in choices
        ]
    )


def choices_of(text: str) -> tuple[AlgorithmChoice, ...]:
    """Back."""
    return tuple(AlgorithmChoice(*row) for row in json.loads(text))
