"""Results that are back where they were: a node that was slow for a while and is at its level again has not drifted."""

from __future__ import annotations

import math

import numpy as np

from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE
from rankmuster.model.hardware import Floats

NEAR_EDGE = 3
"""Runs by which the place of a step is uncertain: those just before one may be at the new level already."""

AT_HOME = 0.25
"""Part of a loss within which a run is at the old level again: of a loss of 3 %, where runs scatter by 1 %, two runs
in a row that are still slow look like that once in ten thousand."""


def rose_home(level: Floats, first: int, least: float) -> bool:
    """Whether a rise at run `first` leads only to where the node was before it got slow.

    `level`: logarithms, higher is faster, by time, without NaN. `least`: relative change below which nothing is one.
    """
    newest = float(np.median(level[first:]))
    risen = newest - float(np.median(level[max(0, first - LEAST_RUNS_BEFORE) : first]))
    return was_at(level[: max(0, first - NEAR_EDGE)], newest - min(math.log1p(least), risen / 2))


def was_at(earlier: Floats, level: float) -> bool:
    """Whether two runs in a row were at `level` or above it: one alone may be an outlier."""
    there = earlier >= level
    return bool(np.any(there[:-1] & there[1:]))


def is_back(level: Floats, before: float, moved: float) -> bool:
    """Whether the newest runs are at the level `before` again, after a move by `moved`, both logarithms."""
    newest = level[-LEAST_RUNS_AFTER:]
    return len(newest) == LEAST_RUNS_AFTER and bool(np.all((newest - before) / moved < AT_HOME))
