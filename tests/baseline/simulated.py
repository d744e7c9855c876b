"""Small simulated fleets for tests."""

from __future__ import annotations

import numpy as np

from rankmuster.baseline.reference import ClassReference
from rankmuster.baseline.simulate_admission import Design, reference
from rankmuster.baseline.simulate_fleet import HEALTHY, Fleet, Loss
from rankmuster.baseline.simulate_noise import CALIBRATED
from rankmuster.model.benchmark import BenchmarkRun

LARGE = 16 << 20


def fleet(seed: int, *, nodes: int = 400, factor: float = 1.0) -> Fleet:
    return Fleet(CALIBRATED.scaled(factor), np.random.default_rng(seed), nodes=nodes)


def known(one: Fleet, runs: int = 30, nodes: int = 30) -> ClassReference:
    return reference(one, Design(runs, nodes))


def run(one: Fleet, loss: Loss = HEALTHY, node: int = 399) -> BenchmarkRun:
    """One process of a node that no history knows."""
    times = one.times(np.array([node]), np.array([3]), one.session(1), loss=loss, contended=False)
    return one.run(times[0])
