"""Modes: two where there are two, one where there is one, and none made of slow nodes."""

from __future__ import annotations

import numpy as np
import pytest

from rankmuster.baseline.modes import find_modes

GAP = 0.12


def _everyone(values: np.ndarray) -> np.ndarray:
    return np.arange(len(values))


@pytest.mark.parametrize("count", [7, 20, 100, 1000])
def test_two_modes_of_one_machine_are_found(count: int) -> None:
    rng = np.random.default_rng(count)
    slow = np.arange(count) % 3 > 0
    score = -np.where(slow, 0.35, 0.0) + rng.normal(0, 0.03, count)
    modes = find_modes(score, np.zeros(count, dtype=np.int64), GAP)
    assert modes.centers == pytest.approx((-0.35, 0.0), abs=0.05)
    assert np.array_equal(modes.label == 0, slow)


@pytest.mark.parametrize(("count", "most"), [(5, 0.3), (10, 0.2), (20, 0.05), (50, 0.03), (1000, 0.0)])
def test_a_broad_single_mode_is_rarely_cut(count: int, most: float) -> None:
    """Few values split by chance; what that costs is in the simulated rates of young histories."""
    cut = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        for score in (rng.normal(0, 0.08, count), rng.uniform(0, 0.3, count)):
            cut += len(find_modes(score, _everyone(score), GAP).centers) > 1
    assert cut <= most * 400


def test_one_slow_run_is_no_mode() -> None:
    score = np.array([0.0, 0.01, -0.01, 0.005, -0.6, 0.0, 0.01])
    assert find_modes(score, _everyone(score), GAP).centers == pytest.approx((0.0,), abs=0.01)


def test_slow_nodes_are_no_mode_of_the_healthy_ones() -> None:
    """Six nodes, four runs each: two modes that every node visits, or two nodes that live in the slow one."""
    rng = np.random.default_rng(1)
    node = np.repeat(np.arange(12), 4)
    visited = -0.3 * (np.arange(48) % 4 == 0) + rng.normal(0, 0.02, 48)
    assert len(find_modes(visited, node, GAP).centers) == 2
    lived_in = -0.3 * (node < 4) + rng.normal(0, 0.02, 48)
    assert len(find_modes(lived_in, node, GAP).centers) == 1


def test_between_modes_is_no_offence_and_outside_is_measured_from_the_nearest() -> None:
    score = np.array([-0.4] * 4 + [0.0] * 4) + np.tile([0.0, 0.01, -0.01, 0.0], 2)
    modes = find_modes(score, np.zeros(8, dtype=np.int64), GAP)
    away = modes.band(np.array([-0.6, -0.4, -0.2, 0.0, 0.3, np.nan]))
    assert away[:5] == pytest.approx([-0.2, 0.0, 0.0, 0.0, 0.3])
    assert np.isnan(away[5])
    assert modes.nearest(-0.25) == pytest.approx(-0.4)
