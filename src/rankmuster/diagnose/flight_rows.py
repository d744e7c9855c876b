"""One dump's rows, told apart: collectives, sends and receives, batches, children that never move, zombies.

Rules from the Flight Recorder's behaviour (torch/csrc/distributed/c10d/FlightRecorder.hpp and what its dumps show):
children of a coalesced group stay `scheduled` for ever and only their terminator moves; unbatched sends carry the
current collective number; backends without events (gloo, nccl2) tell an end by `retired` alone; captured operations
leave entries that never retire.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.batches import coalesced, left_children
from rankmuster.model.flight import Flags, FlightDump, Floats, Ints, State

_P2P = re.compile(r"^(send|recv) (\d{1,6})(?:->|<-)(\d{1,6})$")

EVENTLESS_BACKENDS = frozenset({"gloo", "nccl2"})
"""Backends whose entries never show `completed` (gloo always, nccl2 as of torch 2.14)."""


@dataclass(frozen=True, slots=True)
class P2p:
    """A send or receive. `peer`: rank within its group. `batch`: row of the terminator that finishes it."""

    row: int
    group: int  # index in the dump
    kind: str  # send, recv
    peer: int
    finished: bool
    created: float
    batch: int | None


@dataclass(frozen=True, slots=True, eq=False)
class FlightRows:
    """The rows of one dump. Arrays have shape (collectives,), in program order; times in unix seconds.

    `group`: index in the dump's groups. `started`: state is at least started. `in_motion`: some entry is completed and
    not yet retired, which only dumps of a moving job show. `head_lost`: the ring buffer holds outstanding operations
    alone, so that the first of them is overwritten. `newest`: the newest stamp in the dump, 0 without entries.
    `longest_gap`: the longest ordinary time between two enqueues (99th percentile), seconds.
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
    children: dict[int, tuple[int, ...]]  # position -> rows of the children it stands for
    p2p: tuple[P2p, ...]
    has_events: bool
    has_timing: bool
    head_lost: bool
    in_motion: bool
    newest: float
    longest_gap: float


def base_name(op: str) -> str:
    """`nccl:all_reduce` -> `all_reduce`; names without a backend prefix stay."""
    return op.split(":", 1)[1] if ":" in op else op


def backend_of(op: str) -> str:
    """`nccl:all_reduce` -> `nccl`."""
    return op.split(":", 1)[0] if ":" in op else ""


def rows_of(dump: FlightDump) -> FlightRows:
    """Sorts the rows of `dump` into what they are."""
    columns = dump.columns
    count = len(columns)
    bases = [base_name(op) for op in columns.ops]
    backends = [backend_of(op) for op in columns.ops]
    p2p_of_op = [_P2P.match(base) for base in bases]
    is_terminator_op = np.array([base == "coalesced" or base.endswith("_coalesced") for base in bases], dtype=bool)
    eventless_op = np.array([backend in EVENTLESS_BACKENDS for backend in backends], dtype=bool)
    op = columns.op
    terminator = is_terminator_op[op] if count else np.zeros(0, dtype=bool)
    p2p_flag = columns.is_p2p.copy()
    for index, match in enumerate(p2p_of_op):
        if match:
            p2p_flag |= op == index

    completed = columns.state == State.COMPLETED
    has_events = bool(completed.any()) or (dump.only_active and not bool(eventless_op[op].any() if count else False))
    finished = completed | (columns.retired & ~completed if not has_events else np.zeros(count, dtype=bool))
    failed = columns.retired & ~completed if has_events else np.zeros(count, dtype=bool)
    finished |= _by_status(dump, p2p_flag, has_events)
    # What the status counter calls completed did not fail.
    failed &= ~finished

    child, children, batches = coalesced(columns.group, columns.seq, terminator, p2p_flag)
    left = left_children(dump, terminator, p2p_flag, {row for rows in batches.values() for row in rows})
    finished |= left
    keep = ~p2p_flag & ~child
    keep[list(batches)] = False
    finished_rows = _without_zombies(columns.group, keep, finished)
    keep &= ~finished_rows
    positions = np.flatnonzero(keep)

    op_kept = op[positions].copy()
    kept_children: dict[int, tuple[int, ...]] = {}
    for position, row in enumerate(positions.tolist()):
        found = children.get(row)
        if found:
            kept_children[position] = found
            op_kept[position] = op[found[0]]

    created = columns.created_ns[positions] / 1e9
    gaps = np.diff(np.sort(columns.created_ns)) / 1e9 if count > 2 else np.zeros(1)
    return FlightRows(
        dump=dump,
        row=positions,
        group=columns.group[positions],
        seq=columns.seq[positions],
        op=op_kept,
        finished=finished[positions],
        failed=failed[positions],
        started=columns.state[positions] >= State.STARTED,
        created=created,
        completed=columns.completed_ns[positions] / 1e9,
        duration_ms=columns.duration_ms[positions],
        children=kept_children,
        p2p=_p2p_rows(dump, p2p_flag, p2p_of_op, finished, batches),
        has_events=has_events,
        has_timing=bool((columns.state == State.STARTED).any()) or bool(np.isfinite(columns.duration_ms).any()),
        head_lost=count > 0 and not dump.only_active and int(columns.record_id[0]) > 0 and not bool(finished.any()),
        in_motion=bool((completed & ~columns.retired & ~child).any()),
        newest=columns.newest_ns / 1e9,
        longest_gap=float(np.percentile(gaps, 99)) if len(gaps) else 0.0,
    )


def _by_status(dump: FlightDump, p2p_flag: Flags, has_events: bool) -> Flags:
    """Entries at or below their group's last completed number, where that counter counts collectives alone."""
    columns = dump.columns
    done = np.zeros(len(columns), dtype=bool)
    if not has_events:
        return done
    for key, status in dump.status.items():
        if status.last_completed < 0 or not key.isdigit():
            continue
        mine = columns.pg_id == int(key[:9])
        if (p2p_flag & mine).any():
            continue
        done |= mine & (columns.seq <= status.last_completed) & (columns.seq >= 0)
    return done


def _without_zombies(group: Ints, keep: Flags, finished: Flags) -> Flags:
    """Outstanding rows with a finished one after them in the same group: captured in a graph, they never retire."""
    zombie = np.zeros(len(group), dtype=bool)
    for index in np.unique(group[keep]).tolist() if keep.any() else ():
        mine = np.flatnonzero(keep & (group == index))
        done = np.flatnonzero(finished[mine])
        if len(done):
            before = mine[: done[-1]]
            zombie[before[~finished[before]]] = True
    return zombie


def _p2p_rows(
    dump: FlightDump,
    p2p_flag: Flags,
    p2p_of_op: list[re.Match[str] | None],
    finished: Flags,
    batches: dict[int, tuple[int, ...]],
) -> tuple[P2p, ...]:
    columns = dump.columns
    batch_of = {child: row for row, children in batches.items() for child in children}
    last_finished: dict[tuple[int, str, int], int] = {}
    found: list[P2p] = []
    for row in np.flatnonzero(p2p_flag).tolist():
        match = p2p_of_op[int(columns.op[row])]
        if match is None:
            continue
        batch = batch_of.get(row)
        done = bool(finished[row]) or (batch is not None and bool(finished[batch]))
        entry = P2p(
            row,
            int(columns.group[row]),
            match.group(1),
            int(match.group(3)),
            done,
            int(columns.created_ns[row]) / 1e9,
            batch,
        )
        if done:
            last_finished[(entry.group, entry.kind, entry.peer)] = len(found)
        found.append(entry)
    return tuple(
        entry
        for position, entry in enumerate(found)
        if entry.finished or position > last_finished.get((entry.group, entry.kind, entry.peer), -1)
    )
