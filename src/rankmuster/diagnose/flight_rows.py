"""One dump's rows, told apart: collectives, sends and receives, batches, children that never move, zombies.

Rules from the Flight Recorder's behaviour (torch/csrc/distributed/c10d/FlightRecorder.hpp and what its dumps show):
children of a coalesced group stay `scheduled` for ever and only their terminator moves; unbatched sends carry the
current collective number; backends without events (gloo, nccl2) tell an end by `retired` alone; captured operations
leave entries that never retire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.batches import Batches, coalesced, left_children, left_parts, no_batches, passed_messages
from rankmuster.diagnose.chosen import Column, every_row, seconds, taken
from rankmuster.diagnose.op_names import op_name
from rankmuster.diagnose.p2p_rows import P2pRows, p2p_rows
from rankmuster.model.flight import CallField, Flags, FlightDump, Floats, Ints, State

GAP_PERCENTILE = 99
"""Of the times between two enqueues, the one that counts as the longest ordinary one."""


@dataclass(frozen=True, slots=True, eq=False)
class FlightRows:
    """The rows of one dump. `row`: those that are collectives, in program order; `kept`: the same as a mask.

    `by_group`, `ended`, `broken` are over all rows of the dump: rows sorted by group, in program order within each, and
    whether an operation finished, or failed. Properties have the shape of `row`; times are unix seconds.
    `in_motion`: some entry is completed and not yet retired, which only dumps of a moving job show. `head_lost`: the
    ring buffer holds outstanding operations alone, so that the first of them is overwritten. `newest`: the newest stamp
    in the dump, 0 without entries.
    """

    dump: FlightDump
    row: Ints
    kept: Flags
    by_group: Ints
    ended: Flags
    broken: Flags
    batches: Batches
    p2p: P2pRows
    has_events: bool
    has_timing: bool
    head_lost: bool
    in_motion: bool
    newest: float

    @property
    def whole(self) -> bool:
        """Whether every row of the dump is a collective of its own."""
        return len(self.row) == len(self.kept)

    def _of(self, column: Column) -> Column:
        return column if self.whole else taken(column, self.row)

    @property
    def group(self) -> Ints:
        """Indexes into the dump's groups."""
        return self._of(self.dump.columns.group)

    @property
    def seq(self) -> Ints:
        """Sequence numbers within the group."""
        return self._of(self.dump.columns.seq)

    @property
    def op(self) -> Ints:
        """-> dump.columns.ops, terminators of coalesced collectives under their first child's name."""
        op, batches = self.dump.columns.op, self.batches
        if len(batches.ends):
            op[batches.ends] = op[batches.parts[batches.starts]]
        return self._of(op)

    @property
    def finished(self) -> Flags:
        """Whether it is over, and did not fail where that can be told."""
        return self._of(self.ended)

    @property
    def failed(self) -> Flags:
        """Whether it timed out or failed."""
        return self._of(self.broken)

    @property
    def started(self) -> Flags:
        """Whether its state is at least started."""
        return self._of(self.dump.columns.state) >= State.STARTED

    @property
    def created(self) -> Floats:
        """When the host enqueued it."""
        return seconds(self._of(self.dump.columns.created_ns))

    @property
    def completed(self) -> Floats:
        """When the host noticed its end; 0 unknown."""
        return seconds(self._of(self.dump.columns.completed_ns))

    @property
    def duration_ms(self) -> Floats:
        """From event to event on the GPU; NaN unknown."""
        return self._of(self.dump.columns.duration_ms)

    @property
    def longest_gap(self) -> float:
        """The longest ordinary time between two enqueues, seconds; 0 where there are too few."""
        created = self.dump.columns.created_ns
        if len(created) <= 2:
            return 0.0
        gaps = np.diff(np.sort(created)) / 1e9
        return float(np.percentile(gaps, GAP_PERCENTILE))

    def is_brisk(self, sweep: float) -> bool:
        """Whether a look at it in motion would show entries that are completed and not retired yet.

        It would where operations follow each other within `sweep` seconds; not where finished ones are left out.
        """
        return self.has_events and not self.dump.only_active and 0 < self.longest_gap < sweep


def rows_of(dump: FlightDump) -> FlightRows:
    """Sorts the rows of `dump` into what they are."""
    columns = dump.columns
    count = len(columns)
    call = columns.call
    names = tuple(map(op_name, columns.ops))
    op_of_call = columns.of_calls(CallField.OP)
    ends = np.array([name.ends_batch for name in names], dtype=bool)[op_of_call]
    p2p_call = (columns.of_calls(CallField.IS_P2P) != 0) | np.array([name.peer >= 0 for name in names], dtype=bool)[
        op_of_call
    ]
    eventless = any(names[index].eventless for index in set(op_of_call.tolist()))
    group = columns.group
    by_group = _by_group(group, len(columns.groups))

    completed = columns.state == State.COMPLETED
    has_events = bool(completed.any()) or (dump.only_active and not eventless)
    over = columns.retired & ~completed
    finished = completed if has_events else completed | over
    finished = finished | _by_status(dump, p2p_call, has_events)
    # What the status counter calls completed did not fail.
    failed = over & ~finished if has_events else np.zeros(count, dtype=bool)

    if ends.any() or p2p_call.any():
        terminator, p2p_flag = ends.take(call), p2p_call.take(call)
        batches = coalesced(group, columns.seq, terminator, p2p_flag, by_group)
        finished |= left_children(dump, terminator, p2p_flag, batches.terminator >= 0)
        finished |= passed_messages(dump, terminator, p2p_flag)
        if dump.cut and p2p_flag[-1] and batches.terminator[-1] < 0:
            # The file ends within a batch, or may: what would tell whether it has finished stood behind the end.
            others = np.flatnonzero(~p2p_flag | (group != group[-1]))
            finished[int(others[-1]) + 1 if len(others) else 0 :] = True
        kept = ~(p2p_flag | batches.child | batches.of_p2p)
    else:
        batches = no_batches(count)
        kept = np.ones(count, dtype=bool)
    kept &= ~_zombies(group, kept, finished, len(columns.groups))
    if dump.only_active and has_events:
        finished |= left_parts(dump, p2p_call, batches.terminator >= 0)
        # What has finished and is listed all the same is a part of a batch whose terminator is not.
        kept &= ~finished
    return FlightRows(
        dump=dump,
        row=every_row(count) if kept.all() else np.flatnonzero(kept),
        kept=kept,
        by_group=by_group,
        ended=finished,
        broken=failed,
        batches=batches,
        p2p=p2p_rows(columns, names, group, finished, batches),
        has_events=has_events,
        has_timing=bool((columns.state == State.STARTED).any()) or bool(np.isfinite(columns.duration_ms).any()),
        head_lost=count > 0 and not dump.only_active and int(columns.record_id[0]) > 0 and not bool(finished.any()),
        in_motion=bool((completed & ~columns.retired & ~batches.child).any()),
        newest=columns.newest_ns / 1e9,
    )


def _by_group(group: Ints, groups: int) -> Ints:
    """All rows by group, in program order within each; few groups sort in linear time (numpy's radix sort)."""
    small = group.astype(np.uint8 if groups < 1 << 8 else np.uint16) if groups < 1 << 16 else group
    order: Ints = np.argsort(small, kind="stable")
    return order


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
    done: Flags = (columns.seq >= 0) & (columns.seq <= last.take(columns.call))
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
