"""A measurement against a baseline: per kind of collective the ratio of medians and of tails, with an interval.

With three windows and more the interval is that of a prediction: where a further window of the same instance would lie,
from how far the saved windows' quantiles lie apart (Student's t over their logarithms), widened by what the quantile of
now is uncertain by (order statistics, binomial). With fewer windows only the two distributions' own uncertainty is
known, which collectives that follow each other make too small: what comes of it is provisional.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rankmuster.diagnose.slow.baseline import by_kind, sample, unlike, unsaid, waited_for
from rankmuster.model.flight import Floats
from rankmuster.model.slow import GRID, Operation, OperationKey, SlowReport, Timing
from rankmuster.model.slow_baseline import (
    Baseline,
    Compared,
    ComparedRank,
    Comparison,
    History,
    Measure,
    Outcome,
    Ratio,
    Sample,
)

FEWEST_WINDOWS = 3
"""Windows from which their spread is known at all."""

FEWEST_FOR = {0.5: 20, 0.99: 500}
"""Collectives, now and in a saved window, for its quantile to be compared: five beyond p99 at least."""

MATERIAL = 1.2
"""Ratio from which a difference is told as one: a link or a clock that lost half of itself shows as two, and the little
that shifts of load do to medians changes no decision."""

LEAST_MS = 0.005
"""... and difference in ms, as `change_ms`."""

NORMAL = 2.576
"""Two-sided 99 % of a normal distribution: a job has dozens of kinds, of which none should stand out by chance."""

STUDENT = (
    *(math.inf, 63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355),
    *(3.25, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947),
)
"""The same of Student's t by degrees of freedom, 0 to 15 (any table of it)."""

WAITED_MORE = 0.1
"""Share of wall time by which waiting for a rank must exceed all saved windows (as `tail_share`)."""

MOST_GROUPS = 4
"""Groups named per kind."""

_MEASURES: tuple[tuple[Measure, float, bool], ...] = (
    (Measure.TRANSFER_P50, 0.5, True),
    (Measure.TRANSFER_P99, 0.99, True),
    (Measure.WAIT_P50, 0.5, False),
    (Measure.WAIT_P99, 0.99, False),
)


def compare(baseline: Baseline, report: SlowReport) -> Comparison:
    """What is slower than it was, by how much, and on whom; nothing is compared where the surroundings differ."""
    differs = list(unlike(baseline, report))
    if report.timing is not Timing.EVENTS:
        differs.append("durations: the baseline has some, these dumps have none")
    windows = len(baseline.windows)
    few = windows < FEWEST_WINDOWS or baseline.disturbed
    unknown = unsaid(baseline.surroundings, report.surroundings)
    if differs:
        return Comparison(tuple(differs), unknown, windows, few)
    histories = {one.key: one for one in baseline.operations}
    now = by_kind(report)
    found = [
        _compared(histories[key], operations, report.seconds) for key, operations in now.items() if key in histories
    ]
    found.sort(key=lambda one: -one.share)
    return Comparison(
        differs=(),
        taken_as_same=unknown,
        windows=windows,
        provisional=few,
        compared=tuple(found),
        ranks=_ranks(baseline, report, few),
        new=tuple(key for key in now if key not in histories),
        gone=_gone(histories, now),
    )


def _gone(histories: dict[OperationKey, History], now: dict[OperationKey, list[Operation]]) -> tuple[OperationKey, ...]:
    return tuple(key for key in histories if key not in now)


def _compared(history: History, operations: list[Operation], seconds: float) -> Compared:
    ratios = []
    for measure, probability, of_transfer in _MEASURES:
        of: Callable[[Operation], Floats | None] = (
            (lambda one: one.grid) if of_transfer else (lambda one: one.wait_grid)
        )
        own = sample(operations, of)
        samples = history.transfer if of_transfer else history.wait
        ratio = _ratio(measure, probability, own, samples) if own is not None else None
        if ratio is not None:
            ratios.append(ratio)
    medians = [one.grid[GRID.index(0.5)] for one in history.transfer]
    usual = float(np.median(medians)) if medians else 0.0
    most = max((one.highest_median for one in history.transfer), default=math.inf)
    beyond = [
        (one.label, one.transfer.p50 / usual)
        for one in operations
        if one.transfer is not None and usual > 0 and one.transfer.p50 > max(MATERIAL * most, most + LEAST_MS)
    ]
    beyond.sort(key=lambda item: -item[1])
    on_top = max(
        ((one.transfer.p50 - usual) / 1e3 * one.collectives for one in operations if one.transfer is not None),
        default=0.0,
    )
    return Compared(
        key=history.key,
        n=sum(one.collectives for one in operations),
        windows=len(history.transfer),
        ratios=tuple(ratios),
        groups=tuple(beyond[:MOST_GROUPS]),
        share=max(0.0, on_top) / seconds if seconds > 0 else 0.0,
    )


def _ratio(measure: Measure, probability: float, now: Sample, samples: Sequence[Sample]) -> Ratio | None:
    fewest = FEWEST_FOR[probability]
    usable = [one for one in samples if one.n >= fewest]
    place = GRID.index(probability)
    if now.n < fewest or not usable or now.grid[place] <= 0:
        return None
    earlier = np.array([one.grid[place] for one in usable])
    if (earlier <= 0).any():
        return None
    logs = np.log(earlier)
    centre = float(np.median(logs))
    value = math.log(now.grid[place])
    below, above = _uncertain(now, probability)
    few = len(usable) < FEWEST_WINDOWS
    if few:
        own = [_uncertain(one, probability) for one in usable]
        scatter_up = max(width for _, width in own) + float(np.ptp(logs))
        scatter_down = max(width for width, _ in own) + float(np.ptp(logs))
    else:
        spread = float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / len(logs))
        scatter_up = scatter_down = STUDENT[min(len(logs), len(STUDENT)) - 1] * spread
    low = math.exp(value - centre - math.hypot(below, scatter_up))
    high = math.exp(value - centre + math.hypot(above, scatter_down))
    ratio = math.exp(value - centre)
    far = abs(now.grid[place] - math.exp(centre)) >= LEAST_MS
    outcome = Outcome.SAME
    if far and low > 1 and ratio >= MATERIAL:
        outcome = Outcome.SLOWER
    elif far and high < 1 and ratio <= 1 / MATERIAL:
        outcome = Outcome.FASTER
    return Ratio(measure, now.grid[place], math.exp(centre), low, high, outcome, few)


def _uncertain(one: Sample, probability: float) -> tuple[float, float]:
    """How far, in logarithms, the quantile may lie (below, above): between order statistics of the sample."""
    width = NORMAL * math.sqrt(probability * (1 - probability) / one.n)
    low, middle, high = np.interp(
        [max(0.0, probability - width), probability, min(1.0, probability + width)], GRID, one.grid
    ).tolist()
    below = math.log(middle / low) if low > 0 else math.inf
    return below, math.log(high / middle)


def _ranks(baseline: Baseline, report: SlowReport, few: bool) -> tuple[ComparedRank, ...]:
    found = []
    for rank, share in waited_for(report).items():
        before = max((window.waited.get(str(rank), 0.0) for window in baseline.windows), default=0.0)
        if share >= before + WAITED_MORE:
            found.append(ComparedRank(rank, share, before, few))
    found.sort(key=lambda one: one.before - one.now)
    return tuple(found)
