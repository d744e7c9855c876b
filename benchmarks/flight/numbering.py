"""The numbers that torch gives to the entries of one program: what does not depend on when anything happens.

A batch's children share its number, and its terminator has it too; sends outside a batch carry the number of the last
collective. Captured graphs take numbers and leave no entry. `op_id` counts every operation; the terminator has its last
child's. gloo gives numbers to messages and records none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.flight.calls import Call, Pg, Way
from benchmarks.flight.plan import Program
from numpy.typing import NDArray

Longs = NDArray[np.int64]

TERMINATOR = -1
"""`part` of the entry that closes a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """Entries of one program, shape (entries,), and what the groups' counters say, shape (calls,).

    `kind`: index into `kinds`, (call, part). `place`: the call's index in the program. `number`: what `pg_status`
    counts, the collective's number or the message's.
    """

    kinds: tuple[tuple[int, int], ...]
    kind: Longs
    place: Longs
    seq: Longs
    p2p: Longs
    op: Longs
    number: Longs
    pg: Longs
    first_record: int


def number(program: Program, calls: tuple[Call, ...], *, messages: bool = True) -> Numbered:
    """Numbers a whole program. `messages`: whether sends and receives leave entries."""
    own = [calls[index] for index in program.calls]
    pg = np.array([call.pg for call in own], np.int64)
    bump_seq = np.array([(1 + call.gap) * (call.way is Way.NONE) for call in own], np.int64)
    bump_p2p = np.array([call.way is not Way.NONE for call in own], np.int64)
    bump_op = np.array([len(call.parts) + call.gap for call in own], np.int64)
    seq, p2p, ops = (np.zeros(len(own), np.int64) for _ in range(3))
    for kind in Pg:
        mine = pg == kind
        seq[mine] = program.seq_before[kind] + np.cumsum(bump_seq[mine])
        p2p[mine] = program.p2p_before[kind] + np.cumsum(bump_p2p[mine])
        ops[mine] = program.op_before[kind] + np.cumsum(bump_op[mine])
    kinds: dict[tuple[int, int], int] = {}
    rows = []
    for at, (index, call) in enumerate(zip(program.calls.tolist(), own, strict=True)):
        if call.way is not Way.NONE and not messages:
            continue
        last = len(call.parts) - 1
        for part in range(len(call.parts)):
            rows.append((kinds.setdefault((index, part), len(kinds)), at, last - part))
        if call.closing is not None:
            rows.append((kinds.setdefault((index, TERMINATOR), len(kinds)), at, 0))
    table = np.array(rows, np.int64).reshape(-1, 3)
    place = table[:, 1]
    return Numbered(
        kinds=tuple(kinds),
        kind=table[:, 0],
        place=place,
        seq=seq[place],
        p2p=p2p[place],
        op=ops[place] - table[:, 2],
        number=np.where(bump_p2p > 0, p2p, seq),
        pg=pg,
        first_record=program.entries_before,
    )
