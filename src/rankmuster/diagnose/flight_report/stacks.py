"""What hosts were doing: the last recorded call of ranks that the verdict names, beside what their victims stand at.

A dump's stack is where a call was made, and never where its rank is now: a rank that does not come is in something that
it recorded nothing of, after its last call. Equal stacks are told once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import culprit_stacks
from rankmuster.diagnose.op_names import base_name
from rankmuster.diagnose.roll import Head
from rankmuster.model.flight import FlightColumns, State
from rankmuster.model.flight_report import CallStack, StackReport
from rankmuster.model.verdict import Verdict

TORCH_FRAME = re.compile(r"[/\\]torch[/\\]|\bc10d\b|_distributed_c10d|libtorch")
"""Frames of torch itself, which are the same for every caller."""

MAX_STACKS = 12
"""Distinct stacks of those who wait; a job of thousands stands at a few places of one program."""


def stack_report(context: Context, verdict: Verdict) -> StackReport:
    """The stacks that explain a stop; where nobody is named, of all outstanding calls."""
    accused = verdict.named
    lasts = _Stacks(context)
    for rank in sorted(accused):
        flight = context.table.rows.get(rank)
        if flight is not None and len(flight.dump.columns):
            lasts.add(rank, _last_row(flight.dump.columns))
    waiting = _Stacks(context)
    for rank, head in context.table.heads.items():
        if head is not None and rank not in accused and rank in context.table.rows and _has_row(head):
            waiting.add(rank, head.row)
    seen = tuple(finding.statement for finding in verdict.findings if finding.detector == culprit_stacks.NAME)
    return StackReport(
        lasts.told(), waiting.told()[:MAX_STACKS], seen, tuple(sorted({*lasts.without, *waiting.without}))
    )


def _has_row(head: Head) -> bool:
    return head.row >= 0


def _last_row(columns: FlightColumns) -> int:
    """The last record with a stack: parts of batches have none. The last of all where none has one."""
    stacked = np.flatnonzero(columns.stack >= 0)
    return int(stacked[-1]) if len(stacked) else len(columns) - 1


class _Stacks:
    """Calls with their stacks, equal ones of several ranks together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alike: dict[tuple[str, int | None, str, str, tuple[str, ...], int], list[int]] = defaultdict(list)
        self.without: list[int] = []

    def add(self, rank: int, row: int) -> None:
        """The call at `row` of the rank's dump."""
        table = self._context.table
        columns = table.rows[rank].dump.columns
        call = columns.calls[int(columns.call[row])].tolist()
        key = table.local_groups.get((rank, call[0]))
        label = table.group(key).label if key is not None else columns.groups[call[0]].name
        op = base_name(columns.ops[call[2]])
        sequence = None if op.startswith(("send ", "recv ")) else int(columns.seq[row])
        state = State(int(columns.state[row])).name.lower()
        if columns.retired[row] and state != "completed":
            state = "retired"
        frames, folded = own_frames(columns, row)
        if not frames:
            self.without.append(rank)
        self._alike[label, sequence, op, state, frames, folded].append(rank)

    def told(self) -> tuple[CallStack, ...]:
        """Those of most ranks first."""
        found = [
            CallStack(tuple(sorted(ranks)), label, sequence, op, state, frames, folded)
            for (label, sequence, op, state, frames, folded), ranks in self._alike.items()
        ]
        return tuple(sorted(found, key=lambda stack: (-len(stack.ranks), stack.ranks)))


def own_frames(columns: FlightColumns, row: int) -> tuple[tuple[str, ...], int]:
    """(the caller's frames, innermost first, number of torch's left out); all of them where there are only torch's."""
    index = int(columns.stack[row])
    if index < 0:
        return (), 0
    frames = tuple(columns.stacks[index])
    own = tuple(_outside_torch(frames))
    return (own, len(frames) - len(own)) if own else (frames, 0)


def _outside_torch(frames: Iterable[str]) -> Iterable[str]:
    return (frame for frame in frames if not TORCH_FRAME.search(frame))
