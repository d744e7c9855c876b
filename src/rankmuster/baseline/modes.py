"""Two or three modes of one healthy machine: launch path and clock ramp put small sizes into one or the other.

A mode is something that nodes visit, not something that they live in: a group of nodes that are always slow is a group
of slow nodes, and calling it a mode would admit the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.model.hardware import Floats
from rankmuster.model.history import Ints

MODE_SEPARATION = 4.5
"""Distance of two modes in standard deviations inside them. The best split of a normal distribution has 2.7, of an
even one 3.5: a single broad mode is not cut in two."""

FEW = 50
"""Values below which chance alone splits well."""

CLEFT = 0.5
"""With fewer than FEW values the empty cleft between two modes must be this part of the
distance of their centres. Measured: 0.69 to 0.8 for seven and eight runs on H200s."""

SLOW_MODE_SHARE = 0.1
"""Part of the runs that a slow mode has at least, and two of them: a single slow run is an outlier. A fast mode may be
a single run, since it only widens what counts as healthy towards faster."""

WITHIN_FLOOR = 0.01
"""Spread inside a mode is taken as this at least (ratio): timers quantise."""

MODES_MAX = 3
"""Splits of splits, at most: healthy machines have shown two modes."""

RESIDENT_NODES = 3
"""Nodes with two or more runs that must be seen to say whether a mode is visited or lived in."""


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """`centers`: rising, by score (higher is faster); `label[i]`: the mode of value i."""

    centers: tuple[float, ...]
    label: Ints

    def band(self, score: Floats) -> Floats:
        """How far scores lie outside the band of modes: negative below the slowest, positive above the fastest."""
        return np.where(
            score < self.centers[0],
            score - self.centers[0],
            np.where(score > self.centers[-1], score - self.centers[-1], np.where(np.isnan(score), np.nan, 0.0)),
        )

    def nearest(self, score: float) -> float:
        """The centre that lies nearest to a score."""
        return min(self.centers, key=lambda center: abs(center - score))


def find_modes(score: Floats, node: Ints, gap: float) -> Modes:
    """Modes of one cell's scores (log speed, no NaN), of shape (runs,); `node`: whose run it is.

    One mode, the median, where they do not clearly separate: by `gap` (ratio) and by MODE_SEPARATION.
    """
    order = np.argsort(score, kind="stable")
    bounds = _split(score[order], gap, 0)
    label = np.zeros(len(score), dtype=np.int64)
    for bound in bounds:
        label[order[bound:]] += 1
    kept = _visited(label, node)
    centers = tuple(float(np.median(score[kept == mode])) for mode in range(int(kept.max(initial=0)) + 1))
    return Modes(centers, kept)


def _split(ordered: Floats, gap: float, offset: int, depth: int = 1) -> list[int]:
    """Positions at which ordered scores fall into modes, rising."""
    count = len(ordered)
    if count < 4 or depth >= MODES_MAX:
        return []
    at = np.arange(1, count)
    total, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    left = squares[:-1] - total[:-1] ** 2 / at
    right = (squares[-1] - squares[:-1]) - (total[-1] - total[:-1]) ** 2 / (count - at)
    allowed = at >= max(2, int(np.ceil(SLOW_MODE_SHARE * count)))
    if not allowed.any():
        return []
    inside = np.where(allowed, left + right, np.inf)
    best = int(np.argmin(inside))
    cut = best + 1
    apart = float(np.median(ordered[cut:]) - np.median(ordered[:cut]))
    spread = max(float(np.sqrt(max(inside[best], 0.0) / max(count - 2, 1))), WITHIN_FLOOR)
    cleft = float(ordered[cut] - ordered[cut - 1])
    if apart < gap or apart < MODE_SEPARATION * spread or (count < FEW and cleft < CLEFT * apart):
        return []
    return [
        *_split(ordered[:cut], gap, offset, depth + 1),
        offset + cut,
        *_split(ordered[cut:], gap, offset + cut, depth + 1),
    ]


def _visited(label: Ints, node: Ints) -> Ints:
    """Labels without slow modes that nodes live in: where several nodes have several runs and none is seen in both.

    Such runs keep no mode of their own: they count to the next faster one, and are outliers there.
    """
    of = np.unique(node, return_inverse=True)[1]
    while label.max(initial=0) > 0:
        slow = label == 0
        seen, slow_runs = np.bincount(of), np.bincount(of, weights=slow)
        several = (seen > 1) & (slow_runs > 0)
        residents = int(np.sum(several & (slow_runs == seen)))
        visitors = int(np.sum(several)) - residents
        if residents < RESIDENT_NODES or residents <= visitors:
            break
        label = np.maximum(label - 1, 0)
    return label
