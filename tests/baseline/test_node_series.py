"""A node against its own past."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import LARGE, fleet

from rankmuster.baseline.node_series import node_series
from rankmuster.baseline.simulate_fleet import DAY_S, START_S, Loss
from rankmuster.model.benchmark import Operation
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import Regime


def _node(seed: int, before: int, after: int, loss: float) -> ClassHistory:
    """Node 0 with a run a day and a loss at the end, and node 1, steady."""
    one = fleet(seed, nodes=2)
    count = before + after
    nodes = np.tile([0, 1], count)
    day = np.repeat(np.arange(count) % 30, 2)
    times = one.times(nodes, day, one.session(2 * count), contended=False)
    times[(nodes == 0) & (np.arange(2 * count) >= 2 * before)] *= np.exp(one.slower(Loss(loss, from_bytes=LARGE)))
    return one.history(times, nodes, START_S + DAY_S * np.repeat(np.arange(count, dtype=np.float64), 2))


def test_a_loss_is_seen_with_its_size_and_its_first_run() -> None:
    steps = [step for step in node_series(_node(1, 20, 3, 0.07), "node-0") if step.significant]
    assert {(step.operation, step.regime) for step in steps} == {
        (Operation.ALL_REDUCE, Regime.PLATEAU),
        (Operation.ALL_GATHER, Regime.PLATEAU),
    }
    for step in steps:
        assert step.change == pytest.approx(-0.07, abs=0.015)
        assert (step.since - START_S) / DAY_S == 20
        assert (step.before_runs, step.after_runs) == (20, 3)


def test_its_steady_neighbour_has_none() -> None:
    steps = node_series(_node(1, 20, 3, 0.07), "node-1")
    assert len(steps) == 6
    assert not any(step.significant for step in steps)


def test_repaired_is_a_step_as_well() -> None:
    steps = [step for step in node_series(_node(2, 15, 5, -0.08), "node-0") if step.significant]
    assert steps
    assert all(step.change > 0.06 for step in steps)


def test_steady_nodes_show_a_step_as_rarely_as_stated() -> None:
    found = 0
    for seed in range(40):
        found += any(step.significant for step in node_series(_node(seed, 25, 0, 0.0), "node-0"))
    assert found <= 2


def test_few_runs_or_an_unknown_node_say_nothing() -> None:
    assert node_series(_node(3, 5, 1, 0.3), "node-0") == ()
    assert node_series(_node(3, 20, 3, 0.3), "node-9") == ()
