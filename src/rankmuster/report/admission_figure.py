"""The node's points over the distribution of its class, size by size: bus bandwidth, absolute and relative.

The upper panel is what people know: bandwidth over size, both in powers. The lower one shows what is judged: 100 % is
the class's median at each size, so that a loss of 5 % is seen at 8 KiB and at 1 GiB alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.model.benchmark import BenchmarkRun, Cell
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import CellJudgement, RegimeJudgement, Standing
from rankmuster.report.page import Markup
from rankmuster.report.size_words import size_words
from rankmuster.report.svg import LEFT, RIGHT, WIDTH, label, svg

UPPER, LOWER, GAP = 190.0, 190.0, 34.0
"""Heights of the panels and the room between them, in SVG units."""

OUTER, INNER = (5.0, 95.0), (25.0, 75.0)
"""Percentiles of the class that the light and the dark band show."""

LOWEST, HIGHEST = 0.4, 1.25
"""The lower panel's range, of the class's median, unless points lie outside it."""

INSET = 24.0
"""Room left and right of the first and last size."""

MOST_RUNS = 40
"""Runs drawn as points; a record has some three."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One size. Bandwidths in GB/s; `limit`: the refusal threshold as a bandwidth; `past` sorted."""

    size: int
    points: tuple[float, ...]
    past: tuple[float, ...]
    center: float | None
    limit: float | None


@dataclass(frozen=True, slots=True)
class FigureKey:
    """What one picture is of."""

    operation: str
    dtype: str
    graph: bool
    in_place: bool

    @property
    def title(self) -> str:
        """`all_reduce, float, CUDA graph, in place`."""
        more = (", CUDA graph" if self.graph else "") + (", in place" if self.in_place else "")
        return f"{self.operation}, {self.dtype}{more}"


def figure_keys(runs: Sequence[BenchmarkRun]) -> list[FigureKey]:
    """One per operation, type and way of launching, in order of measurement."""
    cells = [row.cell for run in runs for row in run.measurements]
    return list(dict.fromkeys(FigureKey(c.operation.value, c.dtype, c.graph, c.in_place) for c in cells))


def figure(
    key: FigureKey,
    runs: Sequence[BenchmarkRun],
    judgements: Sequence[RegimeJudgement],
    history: ClassHistory | None,
    name: str,
) -> Markup:
    """`name`: makes the picture's ids unique on its page."""
    columns = _columns(key, runs[:MOST_RUNS], judgements, history)
    if not columns:
        return Markup("")
    sizes = [column.size for column in columns]
    x = _Across(math.log2(max(min(sizes), 1)), math.log2(max(max(sizes), 1)))
    below = {
        cell.cell.size_bytes
        for judged in judgements
        if judged.standing is Standing.BELOW and _same(judged, key)
        for cell in judged.cells
        if cell.ratio is not None and (judged.refuse_below is None or cell.ratio < judged.refuse_below)
    }
    parts = _bandwidth(columns, x, below)
    bottom = UPPER
    if any(column.center for column in columns):
        parts += _relative(columns, x, below)
        bottom = UPPER + GAP + LOWER
    step = max(1, math.ceil(len(sizes) / 10))
    for number, size in enumerate(sizes):
        at = x.of(size)
        parts.append(f'<line class="rule" x1="{at}" y1="{bottom}" x2="{at}" y2="{bottom + 4}"/>')
        left = len(sizes) - 1 - number
        if left == 0 or (number % step == 0 and left >= step):
            parts.append(label(at, bottom + 17, size_words(size), "", "middle"))
    parts.append(label(WIDTH - RIGHT, bottom + 32, "size of the operation", "", "end"))
    return svg(bottom + 40, f"{key.title}: bus bandwidth by size", _description(columns), parts, name)


@dataclass(frozen=True, slots=True)
class _Across:
    """The size axis, in powers of two."""

    low: float
    high: float

    def of(self, size: int) -> float:
        share = 0.5 if self.high <= self.low else (math.log2(max(size, 1)) - self.low) / (self.high - self.low)
        return round(LEFT + INSET + share * (WIDTH - LEFT - RIGHT - 2 * INSET), 1)


def _same(judged: RegimeJudgement, key: FigureKey) -> bool:
    return (judged.operation.value, judged.graph, judged.in_place) == (key.operation, key.graph, key.in_place)


def _columns(
    key: FigureKey, runs: Sequence[BenchmarkRun], judgements: Sequence[RegimeJudgement], history: ClassHistory | None
) -> list[_Column]:
    points: dict[Cell, list[float]] = {}
    for run in runs:
        for row in run.measurements:
            cell = row.cell
            fits = (cell.operation.value, cell.dtype, cell.graph, cell.in_place) == (
                key.operation,
                key.dtype,
                key.graph,
                key.in_place,
            )
            if fits and row.busbw > 0:
                points.setdefault(cell, []).append(row.busbw)
    judged = {each.cell: each for judgement in judgements for each in judgement.cells}
    columns = []
    for cell in sorted(points, key=lambda each: each.size_bytes):
        known = history.cells.get(cell) if history is not None else None
        values = known.busbw[np.isfinite(known.busbw) & (known.busbw > 0)] if known is not None else np.array([])
        past = tuple(sorted(values.tolist()))
        center = float(np.median(values)) if len(past) else None
        limit = _limit(judged.get(cell), points[cell][-1])
        columns.append(_Column(cell.size_bytes, tuple(points[cell]), past, center, limit))
    return columns


def _limit(judged: CellJudgement | None, busbw: float) -> float | None:
    """The threshold as a bandwidth: a limit in microseconds is turned over by the value measured."""
    if judged is None or judged.limit is None or judged.limit <= 0:
        return None
    if judged.unit.startswith("GB"):
        return judged.limit
    return busbw * judged.value / judged.limit


def _bandwidth(columns: Sequence[_Column], x: _Across, below: set[int]) -> list[str]:
    every = [value for c in columns for value in (*c.points, *c.past, *([c.limit] if c.limit else []))]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    high = max(high, low + 1)

    def y(value: float) -> float:
        share = (math.log10(max(value, 1e-9)) - low) / (high - low)
        return round(UPPER - min(max(share, 0.0), 1.0) * (UPPER - 8), 1)

    parts = [_ground(0, UPPER), label(0, 16, "GB/s", "name"), label(0, 31, "bus bandwidth")]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="rule" x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}"/>')
        parts.append(label(LEFT - 8, at + 4, f"{10.0**power:g}", "", "end"))
    return [*parts, *_drawn([_scaled(c, 1.0) for c in columns], x, y, below)]


def _relative(columns: Sequence[_Column], x: _Across, below: set[int]) -> list[str]:
    top = UPPER + GAP
    known = [_scaled(c, c.center) for c in columns if c.center]
    every = [value for c in known for value in c.points]
    low = max(0.0, math.floor(10 * min(LOWEST + 0.2, *every)) / 10 - 0.1)
    high = max(HIGHEST, math.ceil(10 * max(every)) / 10)

    def y(value: float) -> float:
        share = (value - low) / (high - low)
        return round(top + LOWER - min(max(share, 0.0), 1.0) * LOWER, 1)

    parts = [_ground(top, LOWER), label(0, top + 16, "of the median", "name")]
    tick = 0.1 if high - low <= 1 else 0.25
    value = math.ceil(low / tick) * tick
    while value <= high + 1e-9:
        at = y(value)
        parts.append(f'<line class="rule" x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}"/>')
        parts.append(label(LEFT - 8, at + 4, f"{100 * value:.0f} %", "", "end"))
        value += tick
    return [*parts, *_drawn(known, x, y, below)]


def _scaled(column: _Column, by: float | None) -> _Column:
    assert by
    return _Column(
        column.size,
        tuple(value / by for value in column.points),
        tuple(value / by for value in column.past),
        column.center / by if column.center else None,
        column.limit / by if column.limit else None,
    )


def _drawn(columns: Sequence[_Column], x: _Across, height: Callable[[float], float], below: set[int]) -> list[str]:
    parts = []
    past = [c for c in columns if c.past]
    for percentiles, opacity in ((OUTER, "0.55"), (INNER, "1")):
        ends = [(x.of(c.size), *np.percentile(c.past, percentiles).tolist()) for c in past]
        if len(ends) > 1:
            up = " L".join(f"{at} {height(high)}" for at, _, high in ends)
            down = " L".join(f"{at} {height(low)}" for at, low, _ in reversed(ends))
            parts.append(f'<path class="area" fill-opacity="{opacity}" d="M{up} L{down}Z"/>')
    parts += _line([(x.of(c.size), height(c.center)) for c in past if c.center], "curve")
    parts += _line([(x.of(c.size), height(c.limit)) for c in columns if c.limit], "limit fault")
    for column in columns:
        at = x.of(column.size)
        for value in column.points:
            where = height(value)
            if column.size in below:
                parts.append(f'<path class="cross" d="M{at - 4} {where - 4}l8 8m0 -8l-8 8"/>')
            else:
                parts.append(f'<circle class="head" cx="{at}" cy="{where}" r="3"/>')
    return parts


def _line(points: Sequence[tuple[float, float]], style: str) -> list[str]:
    if len(points) < 2:
        return [f'<circle class="{style}" cx="{at}" cy="{where}" r="2"/>' for at, where in points]
    way = " L".join(f"{at} {where}" for at, where in points)
    return [f'<path class="{style}" fill="none" d="M{way}"/>']


def _ground(top: float, height: float) -> str:
    return f'<rect class="row" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{height}"/>'


def _description(columns: Sequence[_Column]) -> str:
    told = []
    for column in columns:
        middle = sorted(column.points)[len(column.points) // 2]
        words = f"{size_words(column.size)}: {middle:.4g} GB/s"
        if column.center:
            words += f", {100 * middle / column.center:.0f} % of the class's median"
        told.append(words)
    return "; ".join(told)
