"""One record of a Flight Recorder dump as it is printed: what torch wrote, and what the record is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EntryKind(str, Enum):
    """What a record is."""

    COLLECTIVE = "collective"
    SEND = "send"
    RECEIVE = "receive"
    PART = "part of a coalesced call"  # never moves by itself
    COALESCED = "end of a coalesced call"
    BATCH = "end of a batch of sends and receives"
    CAPTURED = "captured in a graph"  # never retires


@dataclass(frozen=True, slots=True)
class FlightEntry:
    """Times in ns since the epoch, None unknown. `group`: key in the report, None where the group is not aligned.

    `stack`: "name file:line", innermost first; None unless asked for.
    """

    rank: int
    record_id: int
    group: int | None
    group_name: str
    group_desc: str
    kind: EntryKind
    sequence: int
    p2p_sequence: int
    op_id: int
    op: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    state: str
    retired: bool
    created_ns: int | None
    started_ns: int | None
    completed_ns: int | None
    duration_ms: float | None
    timeout_ms: int | None
    stack: tuple[str, ...] | None
    folded: int = 0  # frames of torch itself that `stack` leaves out
