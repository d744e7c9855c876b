"""The predictive spread: honest with few runs, with many runs of few nodes, and with bad nodes in it."""

from __future__ import annotations

import numpy as np
import pytest

from rankmuster.baseline.distribution import Distribution, distribution


def _of(score: np.ndarray, node: np.ndarray) -> Distribution:
    return distribution(score, node, node_sd=0.01, run_sd=0.005, outlier=0.03)


def _drawn(rng: np.random.Generator, nodes: int, each: int, node_sd: float, run_sd: float) -> tuple[np.ndarray, ...]:
    node = np.repeat(np.arange(nodes), each)
    return rng.normal(0, node_sd, nodes)[node] + rng.normal(0, run_sd, len(node)), node


@pytest.mark.parametrize(("nodes", "each"), [(5, 1), (7, 1), (10, 1), (30, 1), (300, 1), (6, 5), (10, 10), (40, 3)])
@pytest.mark.parametrize("sd", [0.004, 0.01, 0.03])
def test_a_new_healthy_node_falls_below_the_limit_as_rarely_as_stated(nodes: int, each: int, sd: float) -> None:
    rng = np.random.default_rng(nodes * 100 + each)
    below, tries, tail = 0, 300, 0.01
    for _ in range(tries):
        found = _of(*_drawn(rng, nodes, each, sd, sd / 2))
        new = rng.normal(0, sd, 20) + rng.normal(0, sd / 2, 20)
        below += int(np.sum(new < found.center - found.limit(tail)))
    # Of noise three times what is assumed, five nodes still show too little.
    assert below / (20 * tries) < (2.5 if sd > 0.02 and nodes < 10 else 1.6) * tail


def test_a_node_that_ran_a_thousand_times_is_one_node() -> None:
    rng = np.random.default_rng(3)
    few, many = _of(*_drawn(rng, 1, 20, 0.01, 0.004)), _of(*_drawn(rng, 1, 1000, 0.01, 0.004))
    assert many.nodes == 1
    assert many.scale > 0.01
    assert many.scale == pytest.approx(few.scale, rel=0.2)
    score, node = _drawn(rng, 30, 1, 0.01, 0.004)
    busy = np.concatenate((score, score[0] + rng.normal(0, 0.004, 1000)))
    with_busy = _of(busy, np.concatenate((node, np.zeros(1000, dtype=np.int64))))
    assert with_busy.center == pytest.approx(_of(score, node).center, abs=0.002)
    assert with_busy.scale > 0.8 * _of(score, node).scale


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("loss", [0.10, 0.30])
def test_bad_nodes_in_the_history_hardly_move_it(share: float, loss: float) -> None:
    rng = np.random.default_rng(5)
    score, node = _drawn(rng, 40, 1, 0.01, 0.004)
    score[: round(share * 40)] -= loss
    found = _of(score, node)
    assert abs(found.center) < 0.006
    assert found.scale < 0.016
    assert found.left_out >= round(share * 40)


def test_runs_that_are_all_the_same_still_allow_for_what_was_not_seen() -> None:
    found = _of(np.zeros(12), np.arange(12))
    assert found.scale > 0.004
    assert found.limit(0.001) > 0.01
