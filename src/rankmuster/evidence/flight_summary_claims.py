"""Two dumps that claim the same rank: whether they are the same, or can be of one process."""

from __future__ import annotations

import zlib

import numpy as np

from rankmuster.model.flight import FlightColumns, FlightDump


def comparable(one: FlightDump, other: FlightDump, spread_ns: int) -> bool:
    """Whether both are of one time, at most `spread_ns` apart, and of one recorder: each numbers its own records."""
    mine, theirs = ({op.partition(":")[0] for op in dump.columns.ops} for dump in (one, other))
    spans = sorted((int(dump.columns.created_ns.min()), int(dump.columns.created_ns.max())) for dump in (one, other))
    return bool(mine & theirs) and spans[1][0] <= spans[0][1] + spread_ns


def same_process(one: FlightColumns, other: FlightColumns) -> bool | None:
    """Whether records of one number were made at one time; None where the dumps have no number in common."""
    _, mine, theirs = np.intersect1d(one.record_id, other.record_id, return_indices=True)
    return bool((one.created_ns[mine] == other.created_ns[theirs]).all()) if len(mine) else None


def identity(dump: FlightDump) -> tuple[int, ...] | None:
    """What two readings of one dump have in common, and no two dumps; None for one that says nothing."""
    columns = dump.columns
    if dump.rank is None or not len(columns):
        return None
    stamps = (zlib.crc32(column.tobytes()) for column in (columns.created_ns, columns.state, columns.retired))
    return dump.rank, len(columns), columns.newest_ns, int(columns.record_id[-1]), *stamps
