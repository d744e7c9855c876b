"""Steps of a series: found where they are, not where there are none, and not hidden by a bad day."""

from __future__ import annotations

import numpy as np
import pytest

from rankmuster.baseline.steps import StepRules, find_steps, largest_step

RULES = StepRules(before=4, after=3, least=0.015, unit_sd=0.003)
ALPHA = 0.0025


def _series(seed: int, count: int, sd: float = 0.006) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sd, count)


@pytest.mark.parametrize("at", [5, 15, 26])
def test_a_step_is_found_where_it_is(at: int) -> None:
    values = _series(at, 30)
    values[at:] -= 0.05
    (step,) = find_steps(values, RULES, ALPHA)
    assert abs(step.at - at) <= 1
    assert step.after - step.before == pytest.approx(-0.05, abs=0.01)
    assert step.p < ALPHA


def test_a_bad_spell_has_two_ends() -> None:
    values = _series(1, 40)
    values[15:22] -= 0.05
    steps = find_steps(values, RULES, ALPHA)
    assert [abs(step.at - at) <= 1 for step, at in zip(steps, (15, 22), strict=True)] == [True, True]


def test_one_bad_day_is_none_and_hides_none() -> None:
    values = _series(2, 30)
    values[8] -= 0.5
    assert find_steps(values, RULES, ALPHA) == ()
    values[20:] -= 0.05
    (step,) = find_steps(values, RULES, ALPHA)
    assert abs(step.at - 20) <= 1


def test_less_than_matters_is_no_step_however_certain() -> None:
    values = _series(3, 60, sd=0.0005)
    values[30:] -= 0.01
    assert find_steps(values, RULES, ALPHA) == ()
    best = largest_step(values, RULES)
    assert best is not None
    assert best.p < 1e-6


@pytest.mark.parametrize("count", [0, 1, 6])
def test_too_short_a_series_has_no_step(count: int) -> None:
    assert largest_step(np.zeros(count), RULES) is None
    assert find_steps(np.zeros(count), RULES, ALPHA) == ()


def test_a_series_without_any_noise_is_steady() -> None:
    best = largest_step(np.zeros(20), RULES)
    assert best is not None
    assert best.p == 1.0


def test_of_a_long_series_the_newest_part_is_searched() -> None:
    values = _series(4, 500)
    values[450:] -= 0.05
    (step,) = find_steps(values, RULES, ALPHA)
    assert abs(step.at - 450) <= 1


@pytest.mark.parametrize(("count", "tail"), [(8, None), (30, None), (30, 5)])
def test_steady_series_show_a_step_as_rarely_as_stated(count: int, tail: float | None) -> None:
    rng, any_size, found = np.random.default_rng(count), StepRules(4, 3, 0.0, 0.003), 0
    for _ in range(150):
        values = rng.normal(size=count) if tail is None else rng.standard_t(tail, size=count)
        found += bool(find_steps(0.006 * values, any_size, 0.01))
    assert found <= 5
