"""Headers and rows of nccl-tests' table, of every age (formats: nccl-tests src/util.cu, before 2.17 src/*.cu).

Columns came and went: redop and root stand only where an operation has them before 2.12; `error` (a relative
difference) became `#wrong` (a count); `-I 1` adds i_min, i_max, i_p99 and i_cv% behind each placement, `-S 1` a time.
A row is therefore read by what it begins with, and by how many numbers the header says that follow.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

PLAIN = ("time", "algbw", "busbw", "#wrong")
TIMED = (*PLAIN, "i_min", "i_max", "i_p99", "i_cv%")
"""Columns of one placement without and with `-I 1`, where the header is lost."""

BLANK_PLACEMENT = 25
"""Blanks before the first number that mean an empty out-of-place half: it is 32 wide, a gap between columns 2 to 8."""

MOST_NUMBERS = 32
"""Of one row; the widest table has a root and twice eight."""

_TYPE = r"(?:u?int(?:8|16|32|64)?|char|half|b?float(?:8|16|32|64)?(?:_?e\dm\d)?|double|fp8_?e\dm\d\w{0,4}|f8e\dm\d)"
_BEGIN = re.compile(rf"(?<![\w.,+-])([0-9]{{1,20}})\s+([0-9]{{1,20}})\s+({_TYPE})(?=\s|$)")
_LIKE = re.compile(rf"^\s{{0,40}}([^\s#]\S{{0,60}})\s+(\S{{1,60}})\s+{_TYPE}(?:\s+\S{{1,40}}){{6}}")
_REDOP = re.compile(r"\s+(sum|prod|max|min|avg|mulsum|none)(?=\s|$)")
_ROOT = re.compile(r"\s+(-1(?!\d)|[0-9]{1,9}(?![\w.,]))")
_NUMBER = re.compile(r"\s+([0-9]{1,20}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,4})?|N/A|-?nan|inf)(?![\w.,/])")
_COMMA = re.compile(r"\s+\d{1,12},\d{1,6}(?=\s|$)")
_STAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*$")
_HEADER = re.compile(r"\bsize\s+count\s+type\b.*\balgbw\s+busbw")
_HEADER_WORD = re.compile(r"#wrong|i_cv%|[a-z_0-9]+")
_NCCL = re.compile(
    r"(?:\[[^\[\]]{4,40}\] )?(?:[A-Za-z_][\w.\-]{0,254}|\d{1,3}(?:\.\d{1,3}){3}):\d{1,10}:\d{1,10} "
    r"(?:\[-?\d{1,4}\] )?NCCL (?:INFO|WARN|ATTN|CALL|TRACE) "
)


@dataclass(frozen=True, slots=True)
class Header:
    """`redop`, `root`: whether the table has these columns; `first`, `second`: names of each placement's columns.

    `cpu`: the times are the host's, of launching alone (`-C 1`).
    """

    redop: bool
    root: bool
    first: tuple[str, ...]
    second: tuple[str, ...]
    cpu: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """One half of a row. NaN stands for N/A; `iterations`: (min, max, p99, cv) where the row has them."""

    time_us: float
    algbw: float
    busbw: float
    wrong: float
    iterations: tuple[float, float, float, float] | None


@dataclass(frozen=True, slots=True)
class Row:
    """One size. `redop`, `root` None: not in the row. A placement is None where its half is blank or was cut."""

    line: int
    size: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    out_of_place: Placement | None
    in_place: Placement | None
    cut: bool


@dataclass(frozen=True, slots=True)
class Beginning:
    """A row as far as it has been seen. `gap`: the widest blank before one of its first two numbers.

    `comma`: its numbers have decimal commas. `open`: more of it may follow in a later line, since NCCL wrote into it.
    """

    line: int
    size: int
    count: int
    dtype: str
    redop: str | None
    numbers: tuple[str, ...]
    gap: int
    comma: bool
    open: bool


def header(line: str) -> Header | None:
    """The header of a table, or None."""
    if _HEADER.search(line) is None:
        return None
    words = _HEADER_WORD.findall(line[line.index("size") :])
    names = ["time" if word == "cputime" else word for word in words if word != "timestamp"]
    times = [place for place, word in enumerate(names) if word == "time"]
    if not times:
        return None
    second = times[1] if len(times) > 1 else len(names)
    before = names[: times[0]]
    first, further = tuple(names[times[0] : second]), tuple(names[second:])
    return Header("redop" in before, "root" in before, first, further, "cputime" in words)


def beginning(line: str, number: int) -> Beginning | None:
    """The row that stands in a line, whole or in part, or None."""
    found = _BEGIN.search(line)
    if found is None:
        return None
    rest, interrupted = _own(line[found.end() :])
    redop = _REDOP.match(rest)
    numbers, gap, place = _numbers(rest, redop.end() if redop else 0, root=True)
    comma = _COMMA.match(rest, place) is not None
    left = rest[place:].strip()
    if left and not numbers and not comma:
        return None  # a sentence that begins like a row
    return Beginning(
        number,
        int(found[1]),
        int(found[2]),
        found[3],
        redop[1] if redop else None,
        numbers,
        gap,
        comma,
        interrupted or not left,
    )


def unreadable(line: str) -> str | None:
    """How a line begins that has the form of a row and is none: a size below zero, digits of another script."""
    found = _LIKE.match(line)
    return f"{found[1]} {found[2]}" if found is not None and _BEGIN.search(line) is None else None


def continued(begun: Beginning, line: str) -> Beginning | None:
    """The row with what a later line holds of it, or None where the line holds nothing of it."""
    rest, interrupted = _own(" " + line)
    numbers, gap, place = _numbers(rest, 0, root=not begun.numbers)
    if not numbers or rest[place:].strip():
        return None
    gap = max(begun.gap, gap) if len(begun.numbers) < 2 else begun.gap
    return replace(begun, numbers=begun.numbers + numbers, gap=gap, open=interrupted)


def _own(rest: str) -> tuple[str, bool]:
    """(what nccl-tests wrote of a line, whether NCCL wrote into it)."""
    nccl = _NCCL.search(rest) if "NCCL " in rest else None
    if nccl is not None:
        return rest[: nccl.start()], True
    stamp = _STAMP.search(rest)
    return (rest if stamp is None else rest[: stamp.start()]), False


def _numbers(rest: str, place: int, *, root: bool) -> tuple[tuple[str, ...], int, int]:
    """(the numbers from `place` on, the widest blank before one of the first two, where they end)."""
    found: list[str] = []
    gap = 0
    while True:
        number = (_ROOT.match(rest, place) if root and not found else None) or _NUMBER.match(rest, place)
        if number is None or len(found) >= MOST_NUMBERS:
            return tuple(found), gap, place
        if len(found) < 2:
            gap = max(gap, number.start(1) - place)
        found.append(number[1])
        place = number.end()


def complete(begun: Beginning, head: Header | None) -> bool:
    """Whether nothing of the row is missing."""
    first, second, rooted = _shape(begun, head)
    return len(begun.numbers) == len(first) + len(second) + rooted


def _shape(begun: Beginning, head: Header | None) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """(columns of both placements, whether a root stands before them); without a header by the row's own length."""
    if head is not None:
        return head.first, head.second, head.root
    names = TIMED if len(begun.numbers) >= 2 * len(TIMED) else PLAIN
    return names, names, len(begun.numbers) % 2 == 1


def row(begun: Beginning, head: Header | None, *, ended: bool) -> Row:
    """The row. `ended`: its line is whole; otherwise its last number may have lost digits and is not used."""
    first, second, rooted = _shape(begun, head)
    numbers = list(begun.numbers if ended else begun.numbers[:-1])
    root = int(numbers.pop(0)) if rooted and numbers and numbers[0].lstrip("-").isdigit() else None
    values = [_value(one) for one in numbers]
    if begun.gap >= BLANK_PLACEMENT and len(values) <= len(second):
        out, inside, cut = None, _placement(second, values), len(values) < len(second)
    else:
        out, inside = _placement(first, values[: len(first)]), _placement(second, values[len(first) :])
        cut = len(values) < len(first) + len(second)
    return Row(begun.line, begun.size, begun.count, begun.dtype, begun.redop, root, out, inside, cut)


def _value(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _placement(names: tuple[str, ...], values: list[float]) -> Placement | None:
    if not names or len(values) < len(names):
        return None
    by_name = dict(zip(names, values, strict=False))
    timed = all(name in by_name for name in TIMED[len(PLAIN) :])
    return Placement(
        by_name["time"],
        by_name.get("algbw", math.nan),
        by_name.get("busbw", math.nan),
        by_name.get("#wrong", by_name.get("error", math.nan)),
        (by_name["i_min"], by_name["i_max"], by_name["i_p99"], by_name["i_cv%"]) if timed else None,
    )
