"""What a collect or a watch costs a healthy job: windows with and without one, compared within pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CHUNK_SECONDS = 1.0
"""Step times of one second belong together (one burst of another process, one look): resampled as a whole."""
RESAMPLES = 2000
"""Of the bootstrap; the ends of a 95 % interval rest on 50 each."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Blocks of steps in the order they ended. `end`: seconds of the monotonic clock; `step`: seconds a step."""

    end: Floats
    step: Floats

    def within(self, start: float, end: float) -> StepTimes:
        """The blocks that lie wholly in the window, as their ends and the gaps between ends say."""
        begun = np.concatenate(([-np.inf], self.end[:-1]))
        inside = (begun >= start) & (self.end <= end)
        return StepTimes(self.end[inside], self.step[inside])


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of the job. `start`, `end`: seconds of the monotonic clock; `pair`: which other it belongs to.

    `collecting`: whether it is the one with what is measured.
    """

    pair: int
    collecting: bool
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """With over without: 1 is no difference. `low`, `high`: the 95 % interval of the bootstrap."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`median`: of ordinary steps. `mean`: of all time, which also sees short pauses that a median passes over."""

    pairs: int
    blocks: int
    median: Ratio
    mean: Ratio


def read_steps(text: str) -> StepTimes:
    """A steps file: "end steps seconds of-steps" in each line; a last line without its end is left out."""
    rows = []
    for line in text.splitlines(keepends=True):
        words = line.split()
        if line.endswith("\n") and len(words) == 4:
            rows.append((float(words[0]), float(words[2]) / int(words[3])))
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return StepTimes(table[:, 0], table[:, 1])


def order(pairs: int, seed: int) -> tuple[tuple[bool, bool], ...]:
    """For each pair which window has the collect, at random: what drifts over time favours neither."""
    first = np.random.default_rng(seed).integers(0, 2, pairs)
    return tuple((bool(one), not one) for one in first)


def compare(times: StepTimes, windows: Sequence[Window], seed: int, resamples: int = RESAMPLES) -> Comparison:
    """The geometric mean over pairs of (statistic with collect / without), with its interval.

    The interval resamples pairs, and within each window its seconds. Raises ValueError without a whole pair.
    """
    chunked: list[tuple[list[Floats], list[Floats]]] = []
    for pair in sorted({window.pair for window in windows}):
        sides = {window.collecting: _chunks(times, window) for window in windows if window.pair == pair}
        if sides.get(True) and sides.get(False):
            chunked.append((sides[True], sides[False]))
    if not chunked:
        raise ValueError("no pair has steps in both its windows; did the job run all the time?")
    random = np.random.default_rng(seed)
    samples = np.empty((resamples, 2))
    for index in range(resamples):
        drawn = [chunked[place] for place in random.integers(0, len(chunked), len(chunked))]
        again = [(_redraw(with_, random), _redraw(without, random)) for with_, without in drawn]
        samples[index] = [_ratio(again, statistic) for statistic in (np.median, np.mean)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, (tail, 1 - tail), axis=0)
    values = [_ratio(chunked, statistic) for statistic in (np.median, np.mean)]
    blocks = sum(len(chunk) for pair_ in chunked for side in pair_ for chunk in side)
    median, mean = (Ratio(values[at], float(low[at]), float(high[at])) for at in range(2))
    return Comparison(len(chunked), blocks, median, mean)


def compare_rates(rates: Sequence[tuple[int, bool, float]], seed: int, resamples: int = RESAMPLES) -> Ratio:
    """The geometric mean over pairs of (rate with / without), with an interval that resamples pairs.

    `rates`: (pair, whether it is the side with, rate) of each window. Raises ValueError without a whole pair.
    """
    sides: dict[int, dict[bool, float]] = {}
    for pair, with_, rate in rates:
        if rate > 0:
            sides.setdefault(pair, {})[with_] = rate
    logs = np.array([np.log(side[True] / side[False]) for side in sides.values() if len(side) == 2])
    if not len(logs):
        raise ValueError("no pair has a rate in both its windows; did the job run all the time?")
    random = np.random.default_rng(seed)
    means = logs[random.integers(0, len(logs), (resamples, len(logs)))].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(means, (tail, 1 - tail)))
    return Ratio(float(np.exp(logs.mean())), float(low), float(high))


def _chunks(times: StepTimes, window: Window) -> list[Floats]:
    inside = times.within(window.start, window.end)
    second = np.floor((inside.end - window.start) / CHUNK_SECONDS)
    return [inside.step[second == one] for one in np.unique(second)]


def _redraw(chunks: list[Floats], random: np.random.Generator) -> list[Floats]:
    return [chunks[place] for place in random.integers(0, len(chunks), len(chunks))]


def _ratio(pairs: Sequence[tuple[list[Floats], list[Floats]]], statistic: Callable[[Floats], np.floating]) -> float:
    logs = [
        np.log(statistic(np.concatenate(with_))) - np.log(statistic(np.concatenate(without)))
        for with_, without in pairs
    ]
    return float(np.exp(np.mean(logs)))
