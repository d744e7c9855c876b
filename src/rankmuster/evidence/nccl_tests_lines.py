"""The lines of nccl-tests' output as they reach a file: behind labels of launchers, and with NCCL's own lines between.

Only what a launcher puts in front tells whose line it is: `0: ` (srun --label), `[1,0]<stdout>:` (mpirun --tag-output),
`[0] ` (MPICH). Times and names of containers in front of a line are passed over; they stand before every line alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rankmuster.evidence import text

MAX_BYTES = 64 << 20
"""Bytes of one output that are looked at. A table of all types, operations and roots has 2 MB; with NCCL's own lines at
level INFO, tens."""

MOST_CHARACTERS = 2_048
"""Of one line. A row has 200; of longer lines only a launcher's command might be of use."""

_LABEL = re.compile(
    r"\s{0,8}(?:\[[^\[\]\s<>]{0,120}?(\d{1,7})\]<std(?:out|err|diag)>:"  # Open MPI, PRRTE: [job,rank]<stdout>:
    r"|(\d{1,7}): "  # srun --label
    r"|\[(\d{1,7})\] )"  # MPICH -prepend-rank
)
_NCCL_LINE = re.compile(
    r"\S{1,255}:\d{1,10}:\d{1,10} (?:\[-?\d{1,4}\] )?[^\n]{0,300}?NCCL (?:INFO|WARN|ATTN|CALL|TRACE) "
)


@dataclass(frozen=True, slots=True)
class Line:
    """`writer`: the launcher's label, "" where there is none. `ended`: it has its end of line, so it is whole."""

    number: int
    writer: str
    text: str
    ended: bool


def lines(data: bytes) -> Iterator[Line]:
    """Every line, without its label, of the first `MAX_BYTES`."""
    data = data[:MAX_BYTES]
    whole = data.endswith((b"\n", b"\r"))
    held: tuple[int, str] | None = None
    for one in text.lines(data):
        if held is not None:
            yield _line(*held, ended=True)
        held = one
    if held is not None and held[1]:
        yield _line(*held, ended=whole)


def _line(number: int, raw: str, *, ended: bool) -> Line:
    ended = ended and len(raw) <= MOST_CHARACTERS
    raw = raw[:MOST_CHARACTERS]
    found = _LABEL.match(raw)
    if found is None:
        return Line(number, "", raw, ended)
    return Line(number, found[1] or found[2] or found[3], raw[found.end() :], ended)


def is_nccl(line: str) -> bool:
    """Whether NCCL itself wrote all of it."""
    return "NCCL " in line and _NCCL_LINE.match(line.lstrip()) is not None
