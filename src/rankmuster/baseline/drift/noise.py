"""How much results of one node differ from run to run: from neighbouring runs, which a drift hardly separates."""

from __future__ import annotations

import numpy as np

from rankmuster.baseline.thresholds import MAD_TO_SD
from rankmuster.model.hardware import Floats
from rankmuster.model.history import Ints

LEAST_NOISE = 0.003
"""Relative. Results repeat to 0.3 % at best (four H200s, 256 MiB: 336 to 340 GB/s in eight runs): a few runs that
happen to agree better do not make a node exact."""


def robust_sd(values: Floats) -> float:
    """By the median absolute deviation; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    return float(MAD_TO_SD * np.median(np.abs(values - np.median(values))))


def noise_of(level: Floats, node: Ints) -> float:
    """Standard deviation of one run around its node's level, over all nodes: from differences of neighbouring runs.

    `level`, `node`: of shape (runs,), by time.
    """
    known = np.isfinite(level)
    order = np.argsort(node[known], kind="stable")
    values, owner = level[known][order], node[known][order]
    differences = np.diff(values)[owner[1:] == owner[:-1]]
    if len(differences) < 2:
        return LEAST_NOISE
    # the median of |difference| of two normal values is 0.6745 * sqrt(2) * sd
    return max(LEAST_NOISE, float(np.median(np.abs(differences)) * MAD_TO_SD / np.sqrt(2)))
