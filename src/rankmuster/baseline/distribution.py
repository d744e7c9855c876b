"""Centre and predictive spread of a class from its history, with bad nodes inside it and few runs to go by.

A new node's result differs from the class's centre by what sets nodes apart, by what sets runs of one node apart, and
by how uncertain the centre is. Runs of one node say nothing of the first: a node's many runs do not narrow the
spread, and where there are too few nodes to see it, an assumed one stands in (`RegimeThresholds.node_sd`).

Assumed: runs of the history are of different days and sessions as the new one is; effects add up in the logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from rankmuster.baseline.student import quantile_above
from rankmuster.baseline.thresholds import (
    MAD_TO_SD,
    MEDIAN_VARIANCE,
    NODES_FOR_CENTRE,
    NODES_FOR_CLEANING,
    OUTLIER_FEW,
    OUTLIER_SPREADS,
    PRIOR_DOF,
    TAIL_DOF,
)
from rankmuster.model.hardware import Floats
from rankmuster.model.history import Ints


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one statistic in a class. `center`, `scale`: logarithms; `scale`: predictive standard deviation of one run
    of a node that the history does not know. `left_out`: nodes of the history that stand apart from the rest."""

    center: float
    scale: float
    dof: float
    runs: int
    nodes: int
    left_out: int

    def limit(self, tail: float) -> float:
        """How far below `center` a healthy run falls with probability `tail`."""
        return quantile_above(min(tail, 0.5), self.dof) * self.scale


def distribution(score: Floats, node: Ints, *, node_sd: float, run_sd: float, outlier: float) -> Distribution:
    """Of scores of shape (runs,), without NaN, at least one; `node`: integers, whose run each is.

    `node_sd`, `run_sd`, `outlier`: see `RegimeThresholds`.
    """
    names, of, counts = np.unique(node, return_inverse=True, return_counts=True)
    levels = medians(score, of, len(names))
    kept = _kept(levels, outlier)
    # The median of nodes that stay: bad nodes inside the history pull it less.
    few = len(names) < NODES_FOR_CENTRE
    inside = score - levels[of]
    if few:
        center = float(np.median(score[_kept(score, outlier)]))
    else:
        center = float(np.median(levels[kept]))
    used, repeats = int(kept.sum()), counts[kept]
    between = float(np.sum((levels[kept] - center) ** 2) / (used - 1)) if used > 1 else 0.0
    between, between_dof = _with_prior(between, used - 1, node_sd)
    repeated = kept[of] & (counts[of] > 1)
    within_dof = float(np.sum(repeats - 1))
    within, missing = 0.0, 1.0
    if within_dof > 0:
        spread = inside[repeated]
        steady = _kept(spread, outlier)
        within_dof = max(within_dof - float((~steady).sum()), 1.0)
        within, within_dof = _with_prior(float(np.sum(spread[steady] ** 2)) / within_dof, within_dof, run_sd)
        # What the nodes' medians, averaged over their runs, do not show of the spread of a single run.
        missing = 1.0 - 1.0 / (float(len(repeats)) / float(np.sum(1.0 / repeats))) if used > 1 else 1.0
    within *= missing
    single = between + within
    uncertain = MEDIAN_VARIANCE * (between / used + within / len(score)) if used > 2 else single / used
    dof = single**2 / (between**2 / between_dof + (within**2 / within_dof if within_dof > 0 else 0.0))
    return Distribution(
        center=center,
        scale=sqrt(single + uncertain),
        dof=min(dof, TAIL_DOF),
        runs=len(score),
        nodes=len(names),
        left_out=len(names) - used,
    )


def _with_prior(variance: float, dof: float, prior_sd: float) -> tuple[float, float]:
    """Variance and degrees of freedom with the assumed spread weighed in.

    A history that shows more than is assumed is believed as it stands: the assumption must not talk it down. Nor does
    it lend its certainty: the degrees of freedom are those of one of the two, as if the other had not been there.
    """
    if dof > 0 and variance > prior_sd**2:
        return variance, dof
    return (PRIOR_DOF * prior_sd**2 + dof * variance) / (PRIOR_DOF + dof), max(PRIOR_DOF, dof)


def _kept(values: Floats, outlier: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which values are no outliers."""
    if len(values) < NODES_FOR_CLEANING:
        return np.ones(len(values), dtype=np.bool_)
    away = np.abs(values - np.median(values))
    spreads = OUTLIER_SPREADS * (1 + OUTLIER_FEW / len(values))
    return np.asarray(away <= max(spreads * MAD_TO_SD * float(np.median(away)), outlier))


def medians(values: Floats, of: Ints, groups: int) -> Floats:
    """Median per group, of shape (groups,): one sort for all."""
    if groups == len(values):
        result = np.empty(groups)
        result[of] = values
        return result
    order = np.lexsort((values, of))
    ordered = values[order]
    ends = np.cumsum(np.bincount(of, minlength=groups))
    starts = np.concatenate(([0], ends[:-1]))
    counts = ends - starts
    return np.asarray((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2)
