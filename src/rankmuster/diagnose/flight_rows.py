"""One dump's rows, told apart: collectives, sends and receives, batches, children that never move, zombies.

Rules from the Flight Recorder's behaviour (torch/csrc/distributed/c10d/FlightRecorder.hpp and what its dumps show):
children of a coalesced group stay `scheduled` for ever and only their terminator moves; unbatched sends carry the
current collective number; backends without events (gloo, nccl2) tell an end by `retired` alone; captured operations
leave entries that never retire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.batches import Batches, coalesced, left_children
from rankmuster.diagnose.chosen import Chosen, every_row, seconds
from rankmuster.diagnose.op_names import op_name
from rankmuster.diagnose.p2p_rows import P2pRows, p2p_rows
from rankmuster.model.flight import CallField, Flags, FlightDump, Floats, Ints, State

GAP_PERCENTILE = 99
"""Of the times between two enqueues, the one that counts as the longest ordinary one."""


@dataclass(frozen=True, slots=True, eq=False)
class FlightRows:
    """The rows of one dump. Arrays have shape (collectives,), in program order; times in unix seconds.

    `group`: index in the dump's groups. `started`: state is at least started. `in_motion`: some entry is completed and
    not yet retired, which only dumps of a moving job show. `head_lost`: the ring buffer holds outstanding operations
    alone, so that the first of them is overwritten. `newest`: the newest stamp in the dump, 0 without entries.
    """

    dump: FlightDump
    row: Ints
    group: Ints
    seq: Ints
    op: Ints  # -> dump.columns.ops, terminators of coalesced collectives under their first child's name
    finished: Flags
    failed: Flags
    started: Flags
    created: Floats
    completed: Floats
    duration_ms: Floats
    batches: Batches  # over all rows of the dump
    p2p: P2pRows
    has_events: bool
    has_timing: bool
    head_lost: bool
    in_motion: bool
    newest: float

    @property
    def whole(self) -> bool:
        """Whether every row of the dump is a collective of its own."""
        return len(self.row) == len(self.dump.columns)

    @property
    def longest_gap(self) -> float:
        """The longest ordinary time between two enqueues, seconds; 0 where there are too few."""
        created = self.dump.columns.created_ns
        if len(created) <= 2:
            return 0.0
        gaps = np.diff(np.sort(created)) / 1e9
        return float(np.percentile(gaps, GAP_PERCENTILE))


def rows_of(dump: FlightDump) -> FlightRows:
    """Sorts the rows of `dump` into what they are."""
    columns = dump.columns
    count = len(columns)
    call = columns.call
    names = tuple(map(op_name, columns.ops))
    op_of_call = columns.of_calls(CallField.OP)
    named_p2p = np.array([name.kind is not None for name in names], dtype=bool)
    ends = np.array([name.ends_batch for name in names], dtype=bool)
    eventless = np.array([name.eventless for name in names], dtype=bool)
    p2p_call = (columns.of_calls(CallField.IS_P2P) != 0) | named_p2p[op_of_call]
    op, group = columns.op, columns.group
    terminator = ends[op_of_call][call]
    p2p_flag = p2p_call[call]

    completed = columns.state == State.COMPLETED
    has_events = bool(completed.any()) or (dump.only_active and not bool(eventless[op_of_call].any()))
    over = columns.retired & ~completed
    finished = completed if has_events else completed | over
    finished = finished | _by_status(dump, p2p_call, has_events)
    # What the status counter calls completed did not fail.
    failed = over & ~finished if has_events else np.zeros(count, dtype=bool)

    batches = coalesced(group, columns.seq, terminator, p2p_flag)
    finished |= left_children(dump, terminator, p2p_flag, batches.terminator >= 0)
    keep = ~p2p_flag & ~batches.child & ~batches.of_p2p
    keep &= ~_zombies(group, keep, finished, len(columns.groups))
    chosen = Chosen(keep)
    rows = chosen.rows
    op_kept = chosen.of(op)
    if len(batches.ends):
        first_parts = batches.parts[batches.starts]
        op_of_row = op.copy()
        op_of_row[batches.ends] = op[first_parts]
        op_kept = chosen.of(op_of_row)
    return FlightRows(
        dump=dump,
        row=rows,
        group=chosen.of(group),
        seq=chosen.of(columns.seq),
        op=op_kept,
        finished=chosen.of(finished),
        failed=chosen.of(failed),
        started=chosen.of(columns.state >= State.STARTED),
        created=seconds(chosen.of(columns.created_ns)),
        completed=seconds(chosen.of(columns.completed_ns)),
        duration_ms=chosen.of(columns.duration_ms),
        batches=batches,
        p2p=p2p_rows(columns, names, group, op, finished, batches),
        has_events=has_events,
        has_timing=bool((columns.state == State.STARTED).any()) or bool(np.isfinite(columns.duration_ms).any()),
        head_lost=count > 0 and not dump.only_active and int(columns.record_id[0]) > 0 and not bool(finished.any()),
        in_motion=bool((completed & ~columns.retired & ~batches.child).any()),
        newest=columns.newest_ns / 1e9,
    )


def _by_status(dump: FlightDump, p2p_call: Flags, has_events: bool) -> Flags:
    """Entries at or below their group's last completed number, where that counter counts collectives alone."""
    columns = dump.columns
    pg_id = columns.of_calls(CallField.PG_ID)
    last = np.full(len(pg_id), -1, dtype=np.int64)
    if has_events:
        mixed = set(pg_id[p2p_call].tolist())
        for key, status in dump.status.items():
            if status.last_completed >= 0 and key.isascii() and key.isdigit() and int(key[:9]) not in mixed:
                last[pg_id == int(key[:9])] = status.last_completed
    done: Flags = (columns.seq >= 0) & (columns.seq <= last[columns.call])
    return done


def _zombies(group: Ints, keep: Flags, finished: Flags, groups: int) -> Flags:
    """Outstanding rows with a finished one after them in the same group: captured in a graph, they never retire."""
    rows = every_row(len(group))
    done = np.flatnonzero(keep & finished)
    waiting = np.flatnonzero(keep & ~finished)
    zombie = np.zeros(len(group), dtype=bool)
    if not len(done) or not len(waiting) or waiting[0] > done[-1]:
        return zombie
    last = np.full(groups, -1, dtype=np.int64)
    np.maximum.at(last, group[done], rows[done])
    zombie[waiting] = waiting < last[group[waiting]]
    return zombie
