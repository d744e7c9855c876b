"""The little SVG that the figures share: one geometry for all, so that the same moment stands in the same place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankmuster.report.page import Markup, text
from rankmuster.report.words import clock, span

WIDTH = 1040
LEFT = 132
RIGHT = 92
"""Margins for row names on the left and values on the right, in SVG units (pixels at full width)."""

MAX_POINTS = 600
"""Points of one drawn curve: more than one per pixel shows nothing more."""

TICKS = 8
"""About this many labels on an axis."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis, unix seconds; `zero` is where its labels count from, `fault_at` is marked where it lies inside."""

    start: float
    end: float
    zero: float
    fault_at: float | None = None

    def x(self, time: float) -> float:
        """Where a time stands; held to the drawn part."""
        share = (time - self.start) / (self.end - self.start)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def holds(self, time: float) -> bool:
        return self.start <= time <= self.end

    def draw(self, height: float, first: float = 0.0) -> list[str]:
        """Rules and labels below a picture of that height, and the fault's line."""
        parts = []
        step = _step((self.end - self.start) / TICKS)
        tick = math.ceil((self.start - self.zero) / step) * step
        while tick <= self.end - self.zero:
            x = self.x(self.zero + tick)
            parts.append(f'<line class="rule" x1="{x}" y1="{first}" x2="{x}" y2="{height + 4}"/>')
            label = "0" if abs(tick) < step / 2 else f"{'+' if tick > 0 else '−'}{_short(abs(tick), step)}"
            parts.append(f'<text x="{x}" y="{height + 17}" text-anchor="middle">{label}</text>')
            tick += step
        origin = "the fault" if self.fault_at is not None and self.zero == self.fault_at else "0"
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{height + 31}" text-anchor="end">{origin} = {clock(self.zero)}</text>'
        )
        if self.fault_at is not None and self.holds(self.fault_at):
            x = self.x(self.fault_at)
            parts.append(f'<line class="fault" x1="{x}" y1="{first}" x2="{x}" y2="{height + 4}"/>')
            parts.append(f'<text class="t-culprit strong" x="{x}" y="{height + 31}" text-anchor="middle">fault</text>')
        return parts


def _step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    for factor in (1, 2, 5, 10):
        if rough <= factor * power * 1.0001:
            return factor * power
    return 10 * power


def _short(seconds: float, step: float) -> str:
    unit, name = (1.0, "s") if step >= 0.1 else (1e-3, "ms") if step >= 1e-4 else (1e-6, "µs")
    places = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    return f"{seconds / unit:.{places}f} {name}"


def svg(height: float, title: str, description: str, parts: Sequence[str], key: str) -> Markup:
    """A picture with its text alternative; `key` makes the ids of its title and description."""
    role = "group" if any("<a " in part for part in parts) else "img"  # links inside an img cannot be reached
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="{role}" aria-labelledby="{key}-title {key}-text">'
        f'<title id="{key}-title">{text(title)}</title><desc id="{key}-text">{text(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def label(x: float, y: float, words: object, style: str = "", anchor: str = "start") -> str:
    """Escaped text at a place."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words, 60)}</text>'


def bar(x1: float, x2: float, y: float, height: float, style: str, hover: str = "") -> str:
    """A bar at least one pixel wide, with words to read on hover."""
    tip = f"<title>{text(hover)}</title>" if hover else ""
    width = max(x2 - x1, 1.0)
    return f'<rect class="{style}" x="{x1:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">{tip}</rect>'


def thin(time: Floats, value: Floats, points: int = MAX_POINTS) -> tuple[Floats, Floats]:
    """At most `points` points: the lowest and highest of each stretch, so that no spike is lost."""
    if len(time) <= points:
        return time, value
    keep: list[int] = []
    for stretch in np.array_split(np.arange(len(time)), points // 2):
        values = value[stretch]
        if np.all(np.isnan(values)):
            keep.append(int(stretch[0]))
            continue
        keep += sorted({int(stretch[np.nanargmin(values)]), int(stretch[np.nanargmax(values)])})
    return time[keep], value[keep]


def curve(
    axis: Axis, time: Floats, value: Floats, y: Callable[[float], float], style: str, fill: str = "", base: float = 0.0
) -> list[str]:
    """A line that breaks at unknown values and outside the axis, with the area down to `base` where `fill` is given."""
    inside = (time >= axis.start) & (time <= axis.end)
    time, value = thin(time[inside], value[inside])
    runs: list[list[tuple[float, float]]] = [[]]
    for moment, number in zip(time.tolist(), value.tolist(), strict=True):
        if math.isnan(number):
            runs.append([])
        else:
            runs[-1].append((axis.x(moment), round(y(number), 1)))
    parts = []
    for run in runs:
        if not run:
            continue
        points = [f"{x} {height}" for x, height in run]
        if len(points) == 1:
            points.append(f"{run[0][0] + 2:.1f} {run[0][1]}")
        if fill:
            parts.append(f'<path class="{fill}" d="M{run[0][0]} {base} L{" L".join(points)} L{run[-1][0]} {base}Z"/>')
        parts.append(f'<path class="{style}" d="M{" L".join(points)}"/>')
    return parts


PATTERNS = Markup(
    '<svg class="defs" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="p-started" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line class="s-started" x1="0" y1="0" x2="0" y2="6" stroke-width="5"/></pattern>'
    '<pattern id="p-entered" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<line class="s-entered" x1="0" y1="0" x2="0" y2="7" stroke-width="2"/></pattern>'
    '<pattern id="p-failed" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path class="s-failed" d="M0 0L5 5M5 0L0 5" stroke-width="1.2"/></pattern>'
    '<pattern id="p-overwritten" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<line class="s-soft" x1="1" y1="2" x2="2" y2="2" stroke-width="1"/></pattern>'
    "</defs></svg>"
)
"""Patterns of the drawn states, once per page: a state is told by its pattern as well as by its colour."""


def since(axis: Axis, time: float) -> str:
    """A time as the axis would label it, in words."""
    delta = time - axis.zero
    return f"{'+' if delta >= 0 else '-'}{span(abs(delta))}"
