"""Benchmark runs as tables for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun, Cell, Measurement
from rankmuster.report.inert import plain
from rankmuster.report.size_words import size_words

NARROWEST = 40
"""Columns of a terminal; what does not fit a narrower one is broken by the terminal itself."""

GAP = "  "
MOST_TRANSPORTS = 6


@dataclass(frozen=True, slots=True)
class _Column:
    """`rank`: which goes first where the terminal is narrow, the highest; `left`: aligned to the left."""

    title: str
    rank: int
    cell: Callable[[Measurement], str]
    left: bool = False


def as_text(run: BenchmarkRun, width: int) -> str:
    """The run's head, a table per operation, and what is worth knowing, within `width` columns."""
    width = max(width, NARROWEST)
    lines = [*_wrapped(_head(run), width)]
    if run.reason:
        lines += _wrapped(f"{run.state.value}: {run.reason}", width)
    else:
        lines.append(run.state.value)
    choices = {(one.operation, one.size_bytes): one for one in run.choices}
    groups: dict[Cell, list[Measurement]] = {}
    for one in run.measurements:
        cell = one.cell
        groups.setdefault(Cell(cell.operation, 0, cell.dtype, cell.in_place, cell.graph), []).append(one)
    for group, measured in groups.items():
        lines += ["", *_wrapped(_title(group), width), *_table(measured, choices, width)]
    return "\n".join([*lines, *_wrapped_all(_notes(run), width)]) + "\n"


def _head(run: BenchmarkRun) -> str:
    tool = " ".join(part for part in (run.tool, run.tool_version) if part)
    parts = [tool, f"NCCL {run.nccl_version}" if run.nccl_version else "NCCL's version unknown"]
    hosts = list(dict.fromkeys(rank.host for rank in run.ranks))
    if run.ranks:
        models = Counter(rank.gpu_model for rank in run.ranks if rank.gpu_model)
        where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
        model = f" ({', '.join(models)})" if models else ""
        parts.append(f"{run.members} ranks on {where}{model}")
    elif run.members:
        parts.append(f"{run.members} ranks")
    return plain(f"{run.source}: {', '.join(parts)}", limit=400)


def _title(group: Cell) -> str:
    place = "in place" if group.in_place else "out of place"
    how = "replayed from a CUDA graph" if group.graph else "launched one by one"
    return f"{group.operation.value}, {group.dtype}, {place}, {how}"


def _table(
    measured: Sequence[Measurement], choices: dict[tuple[str, int], AlgorithmChoice], width: int
) -> Iterator[str]:
    columns = [column for column in _columns(choices) if any(column.cell(one) for one in measured)]
    rows = [[column.cell(one) for column in columns] for one in measured]
    widths = [max(len(column.title), *(len(row[place]) for row in rows)) for place, column in enumerate(columns)]
    shown = set(range(len(columns)))
    while len(shown) > 1 and 2 + sum(widths[place] for place in shown) + len(GAP) * (len(shown) - 1) > width:
        shown.remove(max(shown, key=lambda place: columns[place].rank))
    for cells in ([column.title for column in columns], *rows):
        aligned = [
            cells[place].ljust(widths[place]) if columns[place].left else cells[place].rjust(widths[place])
            for place in sorted(shown)
        ]
        yield f"  {GAP.join(aligned)}".rstrip()


def _columns(choices: dict[tuple[str, int], AlgorithmChoice]) -> tuple[_Column, ...]:
    return (
        _Column("size", 0, lambda one: size_words(one.cell.size_bytes)),
        _Column("time us", 1, lambda one: _number(one.time_us)),
        _Column("algbw GB/s", 5, lambda one: f"{one.algbw:.2f}"),
        _Column("busbw GB/s", 2, lambda one: f"{one.busbw:.2f}"),
        _Column("wrong", 3, lambda one: "unchecked" if one.wrong is None else str(one.wrong)),
        _Column("cv %", 6, lambda one: _optional(one.spread.cv_percent if one.spread else None, 1)),
        _Column("p99 us", 7, lambda one: _optional(one.spread.p99_us if one.spread else None, 2)),
        _Column("ranks %", 8, _rank_spread),
        _Column(
            "NCCL chose",
            4,
            lambda one: _choice(choices.get((one.cell.operation.value, one.cell.size_bytes))),
            left=True,
        ),
    )


def _number(value: float) -> str:
    """Four significant digits are more than a run repeats."""
    return f"{value:.2f}" if value < 1000 else f"{value:.1f}"


def _optional(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _rank_spread(one: Measurement) -> str:
    """How much slower the slowest rank is than the fastest."""
    if len(one.ranks_us) < 2 or min(one.ranks_us) <= 0:
        return ""
    return f"{(max(one.ranks_us) / min(one.ranks_us) - 1) * 100:.1f}"


def _choice(choice: AlgorithmChoice | None) -> str:
    if choice is None:
        return ""
    channels = f" x{choice.channels}" if choice.channels is not None else ""
    return plain(f"{choice.algorithm}/{choice.protocol}{channels}", limit=40)


def _notes(run: BenchmarkRun) -> Iterator[str]:
    if run.channels is not None:
        yield f"channels: {run.channels}"
    if run.transports:
        more = len(run.transports) - MOST_TRANSPORTS
        words = ", ".join(run.transports[:MOST_TRANSPORTS]) + (f" and {more} more" if more > 0 else "")
        yield f"transports: {plain(words, limit=300)}"
    if run.environment:
        yield "set: " + plain(" ".join(f"{name}={value}" for name, value in run.environment), limit=600)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]


def _wrapped_all(texts: Iterator[str], width: int) -> list[str]:
    lines = [line for text in texts for line in _wrapped(text, width)]
    return ["", *lines] if lines else []
