"""Change points and drifts of simulated fleets: what the real search finds, how late, and what it finds in vain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.changepoints import find_changes
from rankmuster.baseline.node_series import node_series
from rankmuster.baseline.simulate_fleet import DAY_S, HEALTHY, START_S, Fleet, Loss


@dataclass(frozen=True, slots=True)
class ChangeTally:
    """`found`: series in which a point lies within `near` days of the true one; `elsewhere`: with any other point."""

    series: int = 0
    found: int = 0
    elsewhere: int = 0

    def __add__(self, other: ChangeTally) -> ChangeTally:
        return ChangeTally(self.series + other.series, self.found + other.found, self.elsewhere + other.elsewhere)

    def percent(self, name: str) -> float:
        """Of the series."""
        return 100 * float(getattr(self, name)) / max(1, self.series)


@dataclass(frozen=True, slots=True)
class Rollout:
    """The level of a class changes by `loss` from `day` on, over `days` days node by node, on a share of the nodes;
    it is taken back on day `back` where that is given."""

    loss: Loss
    day: int
    days: int = 0
    share: float = 1.0
    back: int | None = None


STEADY = Rollout(HEALTHY, day=0)


def rollout(fleet: Fleet, change: Rollout, *, runs: int, nodes: int, near_days: float = 3.0) -> ChangeTally:
    """One class's series: `runs` runs of `nodes` nodes over the fleet's days, searched once."""
    rng = fleet.rng
    node = rng.integers(0, nodes, runs)
    at = np.sort(rng.random(runs) * fleet.days)
    day = at.astype(np.int64)
    times = fleet.times(node, day, fleet.session(runs))
    begins = change.day + rng.random(nodes) * change.days
    begins[rng.random(nodes) >= change.share] = np.inf
    hit = at >= begins[node]
    if change.back is not None:
        hit &= at < change.back
    times[hit] *= np.exp(fleet.slower(change.loss))
    points = find_changes(fleet.history(times, node, START_S + DAY_S * at))
    true = [change.day + change.days / 2] + ([change.back] if change.back is not None else [])
    lies = [any(abs((p.at - START_S) / DAY_S - day) <= near_days + change.days / 2 for day in true) for p in points]
    hits = sum(lies) > 0 and change.loss.share > 0
    return ChangeTally(1, int(hits), int(any(not one for one in lies) if change.loss.share > 0 else bool(points)))


def node_drift(fleet: Fleet, loss: Loss, *, before: int, after: int) -> ChangeTally:
    """One node with runs before and after a fault, a session each."""
    count = before + after
    node, day = np.zeros(count, dtype=np.int64), np.sort(fleet.rng.integers(0, fleet.days, count))
    times = fleet.times(node, day, fleet.session(count), contended=False)
    times[before:] *= np.exp(fleet.slower(loss))
    at = START_S + DAY_S * np.arange(count, dtype=np.float64)
    steps = [step for step in node_series(fleet.history(times, node, at), "node-0") if step.significant]
    near = [abs(step.before_runs - before) <= 2 for step in steps]
    if loss.share == 0:
        return ChangeTally(1, 0, int(bool(steps)))
    return ChangeTally(1, int(any(near)), int(any(not one for one in near)))
