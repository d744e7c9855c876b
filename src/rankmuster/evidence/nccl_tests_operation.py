"""Which operation a table of nccl-tests is of: what the tool or its command says, a file's name, or the numbers.

Before 2.17.6 the output names its operation nowhere. Then the ratio busbw / algbw, the relation of count and size, and
the columns leave one operation, or several: then it stays unknown, since a guess would be compared with the wrong
history.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from statistics import median

from rankmuster.evidence.nccl_tests_rows import Header, Row
from rankmuster.model.benchmark import Operation

PROGRAMS = {
    "all_reduce_perf": Operation.ALL_REDUCE,
    "all_gather_perf": Operation.ALL_GATHER,
    "reduce_scatter_perf": Operation.REDUCE_SCATTER,
    "alltoall_perf": Operation.ALL_TO_ALL,
    "broadcast_perf": Operation.BROADCAST,
    "reduce_perf": Operation.REDUCE,
    "sendrecv_perf": Operation.SEND_RECV,
}
"""Programs whose results are compared; alltoallv, gather, scatter and hypercube measure nothing that a profile has."""

ELEMENT_BYTES = {"char": 1, "half": 2, "float": 4, "double": 8, "bfloat16": 2, "int": 4}
LEAST_BANDWIDTH = 1.0
"""GB/s of algbw from which a ratio says something: printed with two decimals, 1.00 is exact to half a per cent."""

TOLERANCE = 0.012
"""Of a ratio: twice that rounding error. Of 2(n-1)/n and (n-1)/n the values for 2 ranks and for 1 lie further apart."""

_NAMES = (
    (Operation.ALL_REDUCE, re.compile(r"all[_-]?reduce")),
    (Operation.ALL_GATHER, re.compile(r"all[_-]?gather")),
    (Operation.REDUCE_SCATTER, re.compile(r"reduce[_-]?scatter")),
    (Operation.ALL_TO_ALL, re.compile(r"all[_-]?to[_-]?all(?!v)")),
    (Operation.BROADCAST, re.compile(r"broadcast|bcast")),
    (Operation.SEND_RECV, re.compile(r"send[_-]?recv")),
    (Operation.REDUCE, re.compile(r"(?<!all)(?<!all[_-])reduce(?![_-]?scatter)")),
)
WHOLE = {Operation.ALL_REDUCE, Operation.BROADCAST, Operation.REDUCE, Operation.SEND_RECV}
"""Their count is the whole of the size; the others' count is one rank's part of it."""


def of_program(name: str) -> Operation | None:
    """The operation of `all_reduce_perf`, also with a path before it or a suffix (`_mpi`) behind it."""
    base = PurePosixPath(name.strip()).name
    return next((op for program, op in PROGRAMS.items() if base == program or base.startswith(program + "_")), None)


def of_name(path: str) -> Operation | None:
    """The one operation that a file's own name speaks of."""
    name = PurePosixPath(path.replace("!", "/")).name.lower()
    found = {operation for operation, pattern in _NAMES if pattern.search(name)}
    return found.pop() if len(found) == 1 else None


def element_bytes(dtype: str) -> int | None:
    """Bytes of one element, None for a type nobody knows."""
    if dtype in ELEMENT_BYTES:
        return ELEMENT_BYTES[dtype]
    bits = re.search(r"(?:int|float)(8|16|32|64)$", dtype)
    if bits is not None:
        return int(bits[1]) // 8
    return 1 if dtype.startswith(("fp8", "f8", "float8")) else None


def possible(
    rows: Sequence[Row], head: Header | None, ranks: int | None, *, claimed: bool = False
) -> frozenset[Operation]:
    """The operations that the numbers and columns of a table can be of; all of them where they say nothing.

    `claimed`: the tool itself names its operation. Then which halves were checked says nothing: a later version may
    check what this one cannot.
    """
    left = set(Operation)
    part = _count_is_a_part(rows)
    if part is not None:
        left &= set(Operation) - WHOLE if part else WHOLE
    ratio = _ratio(rows)
    if ratio is not None:
        left = {operation for operation in left if _fits(operation, ratio, ranks)}
    return frozenset(left & _by_columns(rows, head, claimed=claimed))


def _ratio(rows: Sequence[Row]) -> float | None:
    halves = [half for row in rows for half in (row.out_of_place, row.in_place) if half is not None]
    ratios = [half.busbw / half.algbw for half in halves if half.algbw >= LEAST_BANDWIDTH and half.busbw > 0]
    return median(ratios) if ratios else None


def _fits(operation: Operation, ratio: float, ranks: int | None) -> bool:
    if ranks is not None and ranks > 1:
        return abs(operation.bus_factor(ranks) - ratio) <= TOLERANCE * max(ratio, 1.0)
    if operation is Operation.ALL_REDUCE:
        return ratio >= 1 - TOLERANCE
    if operation in WHOLE:
        return abs(ratio - 1) <= TOLERANCE
    return ratio <= 1


def _count_is_a_part(rows: Sequence[Row]) -> bool | None:
    """Whether `count` is of one rank's part of `size`, None where no row tells."""
    for row in reversed(rows):
        width = element_bytes(row.dtype)
        if width is not None and row.size > 0 and row.count > 0:
            return row.count * width != row.size
    return None


def _by_columns(rows: Sequence[Row], head: Header | None, *, claimed: bool) -> set[Operation]:
    """By redop, root, and whether in-place results could be checked (those of all-to-all and send-receive cannot)."""
    if not rows:
        return set(Operation)
    left = set(Operation)
    redops = {row.redop for row in rows}
    rooted = any(row.root is not None and row.root >= 0 for row in rows)
    if rooted:
        left &= {Operation.BROADCAST, Operation.REDUCE}
    elif any(row.root == -1 for row in rows):
        left -= {Operation.BROADCAST, Operation.REDUCE}
    if redops == {"none"}:
        left -= {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.REDUCE}
    elif None not in redops:
        left -= {Operation.ALL_GATHER, Operation.ALL_TO_ALL, Operation.BROADCAST}
    elif head is not None and not (head.root and head.redop):
        # before 2.12: a column stood only where the operation uses it; of all-to-all redop stood empty
        own = Operation.BROADCAST if head.root else Operation.ALL_TO_ALL if head.redop else Operation.ALL_GATHER
        left &= {own, Operation.SEND_RECV}
    unchecked = None if claimed else _unchecked_in_place(rows)
    if unchecked is not None:
        symmetric = {Operation.ALL_TO_ALL, Operation.SEND_RECV}
        left &= symmetric if unchecked else set(Operation) - symmetric
    return left


def _unchecked_in_place(rows: Sequence[Row]) -> bool | None:
    """Whether only the in-place half says N/A; None where nothing was checked."""
    both = [(row.out_of_place, row.in_place) for row in rows if row.out_of_place is not None and row.in_place]
    checked = [inside for out, inside in both if out is not None and not math.isnan(out.wrong)]
    return all(inside is not None and math.isnan(inside.wrong) for inside in checked) if checked else None
