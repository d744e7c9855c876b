"""Steps in the level of a series: where, how large, and how likely a steady series is to show as much.

Binary segmentation. At each place and over several widths the medians of both sides are compared by Student's t, with
the spread pooled inside both sides, outliers drawn in; the p-value is multiplied by the number of places and widths
tried (Bonferroni). Short widths see a bad week in a long series, which the median of all that follows does not.

Assumed: units of a series are independent around their level. Slow drifts break that; `least` keeps what is too
small to act upon from being called a step, and the rates of steady series are simulated (`docs/measured.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np

from rankmuster.baseline.student import upper_tail
from rankmuster.baseline.thresholds import MAD_TO_SD, MEDIAN_VARIANCE, OUTLIER_SPREADS, PRIOR_DOF, TAIL_DOF
from rankmuster.model.hardware import Floats

WIDTHS = (5, 10, 20)
"""Units on each side that are compared, besides all of them."""

UNITS_MAX = 200
"""Of a longer series the newest are looked at: the time grows with the square."""


@dataclass(frozen=True, slots=True)
class StepRules:
    """`before`, `after`: units on each side at least. `least`: smallest step, in the values' own unit (logarithms).
    `unit_sd`: spread of one unit that is assumed until the series shows its own."""

    before: int
    after: int
    least: float
    unit_sd: float


@dataclass(frozen=True, slots=True)
class Step:
    """The level changes with unit `at`, from `before` to `after` (medians of the segments). `p`: of a steady series
    showing as much anywhere."""

    at: int
    before: float
    after: float
    p: float


def find_steps(values: Floats, rules: StepRules, alpha: float) -> tuple[Step, ...]:
    """Steps with p below `alpha` and of `rules.least` at least, in order; `values` without NaN, shape (units,)."""
    skipped = max(0, len(values) - UNITS_MAX)
    values = values[skipped:]
    found: dict[int, float] = {}
    open_ends = [(0, len(values))]
    while open_ends:
        start, end = open_ends.pop()
        best = largest_step(values[start:end], rules)
        if best is None or best.p >= alpha or abs(best.after - best.before) < rules.least:
            continue
        at = start + best.at
        found[at] = best.p
        open_ends += [(start, at), (at, end)]
    bounds = [0, *sorted(found), len(values)]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(bounds)] if found else []
    return tuple(
        Step(skipped + at, levels[i], levels[i + 1], found[at])
        for i, at in enumerate(sorted(found))
        if abs(levels[i + 1] - levels[i]) >= rules.least
    )


def largest_step(values: Floats, rules: StepRules) -> Step | None:
    """The least likely step of a series, of whatever size; None where it is too short for one.

    `before` and `after` of it are of the width at which it is least likely.
    """
    count = len(values)
    places = range(rules.before, count - rules.after + 1)
    if not places:
        return None
    widths = sorted({width for width in WIDTHS if width >= max(rules.before, rules.after) and width < count} | {count})
    best: tuple[float, int, int] | None = None
    for width in widths:
        for at in places:
            t, dof = _t(values[max(0, at - width) : at], values[at : at + width], rules.unit_sd)
            p = 2 * upper_tail(t, dof)
            if best is None or p < best[0]:
                best = p, at, width
    assert best is not None
    p, at, width = best
    at = _sharpest(values, at, width, places)
    before, after = values[max(0, at - width) : at], values[at : at + width]
    tried = len(places) * len(widths)
    return Step(at, float(np.median(before)), float(np.median(after)), min(1.0, p * tried))


def _t(before: Floats, after: Floats, unit_sd: float) -> tuple[float, float]:
    """Student's t of two medians, its sign left off, and the degrees of freedom."""
    middle, new = float(np.median(before)), float(np.median(after))
    rest = np.abs(np.concatenate((before - middle, after - new)))
    # Outliers are drawn in to the cut, so that one bad day does not hide a step, nor make one.
    cut = max(OUTLIER_SPREADS * MAD_TO_SD * float(np.median(rest)), OUTLIER_SPREADS * unit_sd)
    free = max(len(rest) - 2, 1)
    variance = float(np.sum(np.minimum(rest, cut) ** 2)) / free
    dof = float(free)
    if variance <= unit_sd**2:
        variance = (PRIOR_DOF * unit_sd**2 + free * variance) / (PRIOR_DOF + free)
        dof = PRIOR_DOF + free
    uncertain = _of_median(len(before)) + _of_median(len(after))
    return abs(new - middle) / sqrt(variance * uncertain), round(min(dof, TAIL_DOF), 1)


def _of_median(count: int) -> float:
    """Variance of a median of `count`, in units of the variance of one."""
    return (1.0 if count <= 2 else MEDIAN_VARIANCE) / count


def _sharpest(values: Floats, at: int, width: int, places: range) -> int:
    """The place near `at` that leaves the least distance to the medians of both sides."""
    best, least = at, np.inf
    start, end = max(0, at - width), min(len(values), at + width)
    for place in range(max(start + 1, at - 3, places.start), min(end - 1, at + 3, places.stop - 1) + 1):
        before, after = values[start:place], values[place:end]
        cost = float(np.abs(before - np.median(before)).sum() + np.abs(after - np.median(after)).sum())
        if cost < least:
            best, least = place, cost
    return best
