"""The native reader of pickle dumps, where it was built: straight into columns, without the interpreter's lock.

`src/native` reads every well-formed dump of plain data. Whatever else it meets (damage, an opcode it does not know, a
container that changes after it was shared) it leaves to the pure reader, so that both say the same of every file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rankmuster.evidence.flight_stacks import FrameTree, Packed
from rankmuster.model.flight import CallField, FlightColumns, FlightGroup

SWITCH = "RANKMUSTER_NATIVE"
"""Environment variable: 0 turns the native reader off."""

Scanned = tuple[
    dict[str, Any],  # the top level, `entries` emptied
    int,  # entries
    bytes,  # columns, one after the other in the order of _COLUMNS
    int,  # bits of columns that hold one value for all entries
    bytes,  # calls
    tuple[tuple[str, str, int], ...],  # groups: name, desc, the last pg_id
    tuple[str, ...],  # ops
    tuple[tuple[tuple[int, ...], ...], ...],  # sizes
    tuple[tuple[str, ...], ...],  # dtypes
    Packed,  # stacks
]

_COLUMNS: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("record_id", np.dtype(np.int64)),
    ("seq", np.dtype(np.int64)),
    ("p2p_seq", np.dtype(np.int64)),
    ("op_id", np.dtype(np.int64)),
    ("created_ns", np.dtype(np.int64)),
    ("started_ns", np.dtype(np.int64)),
    ("completed_ns", np.dtype(np.int64)),
    ("duration_ms", np.dtype(np.float64)),
    ("call", np.dtype(np.int32)),
    ("stack", np.dtype(np.int32)),
    ("state", np.dtype(np.int8)),
    ("retired", np.dtype(np.bool_)),
)

LAYOUT = 1
"""Of what scan() gives; a build left behind by an older version has another, and is not used."""

_scan: Callable[[bytes], Scanned | None] | None = None
try:
    from rankmuster.evidence import _flight_scan

    if _flight_scan.LAYOUT == LAYOUT:
        _scan = _flight_scan.scan
except (ImportError, AttributeError):  # installed without a compiler
    pass


def active() -> bool:
    """Whether dumps are read by the native reader: it was built, and the environment does not turn it off."""
    return _scan is not None and os.environ.get(SWITCH) != "0"


class ScannedEntries:
    """All entries of one dump, as columns in one piece of memory."""

    def __init__(self, scanned: Scanned) -> None:
        self._scanned = scanned

    def build(self, config: Mapping[tuple[str, str], tuple[int, ...] | None]) -> FlightColumns:
        """The columns, read-only; `config` gives the members per (name, desc) as the dump's table has them."""
        _, count, data, constant, calls, groups, ops, sizes, dtypes, stacks = self._scanned
        columns: dict[str, Any] = {}
        offset = 0
        for bit, (name, dtype) in enumerate(_COLUMNS):
            if constant >> bit & 1:
                columns[name] = np.ndarray((count,), dtype, data, offset, (0,))
                offset += dtype.itemsize
            else:
                columns[name] = np.ndarray((count,), dtype, data, offset)
                offset += dtype.itemsize * count
        return FlightColumns(
            **columns,
            calls=np.frombuffer(calls, dtype=np.int64).reshape(-1, len(CallField)),
            groups=tuple(FlightGroup(name, desc, config.get((name, desc)), pg_id) for name, desc, pg_id in groups),
            ops=ops,
            sizes=sizes,
            dtypes=dtypes,
            stacks=FrameTree(stacks),
        )


def scan(data: bytes) -> tuple[dict[str, Any], ScannedEntries] | None:
    """The top level of a dump and its entries; None where the pure reader has to look at it."""
    scanned = _scan(data) if _scan is not None and active() else None
    return None if scanned is None else (scanned[0], ScannedEntries(scanned))
