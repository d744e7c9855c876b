"""Distributions as arrays: quantiles that are measured values, and no tail that the count does not bear."""

from __future__ import annotations

import math

import numpy as np

from rankmuster.model.flight import Floats
from rankmuster.model.slow import FEWEST_FOR, GRID, QUANTILES


def quantiles(values: Floats) -> Floats:
    """Of each row, shape (rows, len(QUANTILES)), by nearest rank; NaN where there are too few values for one.

    `values`: shape (rows, n), without NaN.
    """
    rows, count = values.shape
    found = np.full((rows, len(QUANTILES)), np.nan)
    if not count or not rows:
        return found
    ordered = np.sort(values, axis=1)
    for column, (share, fewest) in enumerate(zip(QUANTILES, FEWEST_FOR, strict=True)):
        if count >= fewest:
            found[:, column] = ordered[:, max(0, math.ceil(share * count) - 1)]
    return found


def grid(values: Floats) -> Floats:
    """Quantiles of one distribution at GRID, interpolated; shape (len(GRID),). `values`: shape (n,), n > 0."""
    ordered = np.sort(values)
    found: Floats = np.interp(np.array(GRID) * (len(ordered) - 1), np.arange(len(ordered)), ordered)
    return found
