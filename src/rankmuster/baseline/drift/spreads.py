"""Nodes whose ranks drift apart: one GPU or one rail falls behind before the whole is much slower."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.drift.lanes import Lane, Runs
from rankmuster.baseline.drift.noise import robust_sd
from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE, DriftSettings

NEWEST = (2, 3, 5, 8, 13, 21)
"""Numbers of newest runs that are held against those before: a sudden rise shows in few, a slow one in many."""

RISE_BY_NOISE = 6.0
"""Standard errors of a rise. Spreads between ranks are skewed to the right, so a normal tail is too thin for them; in
simulation (docs/drift.md) 6 keeps false alarms below those of the bandwidth."""

SHOWN = 3
"""Newest runs that have to show a rise by their median: ranks that are together again have not drifted apart."""

LEAST_NOISE = 1.0
"""Percentage points. Below it the clock's own resolution shows."""


@dataclass(frozen=True, slots=True)
class Rise:
    """`before`, `after`: median spread between ranks in percent. `since`: unix seconds of the first run that shows it.

    `classes`: of the run before it and of that run; they differ at a change of class.
    """

    node: str
    lane: Lane
    before: float
    after: float
    since: float
    classes: tuple[str, str]


def rises(runs: Runs, asked: Collection[str], settings: DriftSettings) -> tuple[Rise, ...]:
    """Of the nodes `asked` (node hashes), the clearest lane of each."""
    found = []
    for node in sorted(set(runs.nodes) & set(asked)):
        rows = runs.of(node)
        best: tuple[float, Rise] | None = None
        for lane in sorted(runs.spread):
            spread = runs.spread[lane][rows]
            known = rows[np.isfinite(spread)]
            one = _rise(runs, node, lane, known, settings)
            if one is not None and (best is None or one[0] > best[0]):
                best = one
        if best is not None and (settings.since is None or best[1].since >= settings.since):
            found.append(best[1])
    return tuple(found)


def _rise(runs: Runs, node: str, lane: Lane, rows: np.ndarray, settings: DriftSettings) -> tuple[float, Rise] | None:
    values = runs.spread[lane][rows]
    best: tuple[float, Rise] | None = None
    for newest in NEWEST:
        old, new = values[:-newest], values[-newest:]
        if len(old) < LEAST_RUNS_BEFORE or len(new) < LEAST_RUNS_AFTER:
            break
        noise = max(LEAST_NOISE, robust_sd(old))
        before, after = float(np.median(old)), float(np.median(new))
        z = (after - before) / (noise * np.sqrt(1 / len(old) + 1 / len(new)))
        if float(np.median(new[-SHOWN:])) - before < (after - before) / 2:
            continue  # apart for a while, and together again
        if after - before >= settings.least_spread and z >= RISE_BY_NOISE and (best is None or z > best[0]):
            first = len(values) - newest
            classes = tuple(runs.classes[runs.class_[rows[row]]] for row in (first - 1, first))
            rise = Rise(node, lane, before, after, float(runs.time[rows[first]]), (classes[0], classes[1]))
            best = (float(z), rise)
    return best
