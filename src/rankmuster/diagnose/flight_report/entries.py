"""Records of dumps, chosen by rank and group and made into values one by one: only those that are printed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.flight_report.stacks import own_frames
from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.model.flight import Ints, State
from rankmuster.model.flight_entry import EntryKind, FlightEntry

_KINDS = tuple(EntryKind)


def chosen(
    context: Context, ranks: Collection[int] | None, groups: Collection[int] | None, newest: int | None
) -> dict[int, tuple[Ints, int]]:
    """Rank -> (rows to print, in program order; number of rows that the filters choose).

    `ranks`, `groups` (keys): None for all. `newest`: at most so many of each rank, the last ones; None for all.
    """
    found = {}
    for rank, flight in sorted(context.table.rows.items()):
        if ranks is not None and rank not in ranks:
            continue
        columns = flight.dump.columns
        if groups is None:
            rows: Ints = np.arange(len(columns))
        else:
            own = [
                index for index in range(len(columns.groups)) if context.table.local_groups.get((rank, index)) in groups
            ]
            rows = np.flatnonzero(np.isin(columns.group, own))
        count = len(rows)
        found[rank] = (rows if newest is None else rows[max(0, count - newest) :], count)
    return found


def entries(
    context: Context, rank: int, rows: Ints, *, stacks: bool = False, whole: bool = False
) -> Iterator[FlightEntry]:
    """The records at `rows` of one rank's dump. `stacks`: with the caller's frames; `whole`: with torch's too."""
    table = context.table
    flight = table.rows[rank]
    columns = flight.dump.columns
    kinds = _kinds(flight)
    for row in rows.tolist():
        group, _, op, ins, outs, in_types, out_types, _, timeout = columns.calls[int(columns.call[row])].tolist()
        stack: tuple[str, ...] | None = None
        folded = 0
        if stacks and whole:
            index = int(columns.stack[row])
            stack = tuple(columns.stacks[index]) if index >= 0 else ()
        elif stacks:
            stack, folded = own_frames(columns, row)
        duration = float(columns.duration_ms[row])
        local = columns.groups[group]
        yield FlightEntry(
            rank=rank,
            record_id=int(columns.record_id[row]),
            group=table.local_groups.get((rank, group)),
            group_name=local.name,
            group_desc=local.desc,
            kind=_KINDS[int(kinds[row])],
            sequence=int(columns.seq[row]),
            p2p_sequence=int(columns.p2p_seq[row]),
            op_id=int(columns.op_id[row]),
            op=columns.ops[op],
            input_sizes=columns.sizes[ins] if ins >= 0 else (),
            output_sizes=columns.sizes[outs] if outs >= 0 else (),
            input_dtypes=columns.dtypes[in_types] if in_types >= 0 else (),
            output_dtypes=columns.dtypes[out_types] if out_types >= 0 else (),
            state=State(int(columns.state[row])).name.lower(),
            retired=bool(columns.retired[row]),
            created_ns=int(columns.created_ns[row]) or None,
            started_ns=int(columns.started_ns[row]) or None,
            completed_ns=int(columns.completed_ns[row]) or None,
            duration_ms=duration if math.isfinite(duration) else None,
            timeout_ms=timeout if timeout >= 0 else None,
            stack=stack,
            folded=folded,
        )


def _kinds(flight: FlightRows) -> Ints:
    """-> `EntryKind`, per row of the dump."""
    place = {kind: index for index, kind in enumerate(_KINDS)}
    kinds = np.full(len(flight.dump.columns), place[EntryKind.CAPTURED], dtype=np.int64)
    kinds[flight.row] = place[EntryKind.COLLECTIVE]
    kinds[flight.p2p.row] = np.where(flight.p2p.sends, place[EntryKind.SEND], place[EntryKind.RECEIVE])
    kinds[flight.batches.child] = place[EntryKind.PART]
    kinds[flight.batches.ends] = place[EntryKind.COALESCED]
    kinds[flight.batches.of_p2p] = place[EntryKind.BATCH]
    return kinds
