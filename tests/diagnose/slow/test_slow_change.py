"""Since when: changes are found where they are, and not where nothing changes; rates by seeded simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rankmuster.diagnose.slow.change import midranks, splits, strongest, tail, to_change
from rankmuster.diagnose.slow.limits import DEFAULTS
from rankmuster.model.flight import Floats

Rng = np.random.Generator

ANY_SIZE = replace(DEFAULTS, change_ratio=1.0, change_ms=0.0)
"""So that the rate is that of the test alone, without what makes a change worth telling."""


def even(rng: Rng, count: int) -> Floats:
    return 0.05 * rng.lognormal(0.0, 0.3, count)


def two_modes(rng: Rng, count: int) -> Floats:
    return np.where(rng.random(count) < 0.3, 0.15, 0.035) * rng.lognormal(0.0, 0.1, count)


def heavy(rng: Rng, count: int) -> Floats:
    return 0.05 * (1 + rng.pareto(1.2, count))


def correlated(rng: Rng, count: int) -> Floats:
    noise = rng.standard_normal(count)
    for index in range(1, count):
        noise[index] += 0.9 * noise[index - 1]
    return 0.05 * np.exp(0.17 * noise)


def bursts(rng: Rng, count: int) -> Floats:
    busy = np.repeat(rng.random(count // 20 + 1) < 0.1, 20)[:count]
    return 0.05 * rng.lognormal(0.0, 0.1, count) * np.where(busy, 3.0, 1.0)


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize(
    ("series", "most"), [(even, 0.005), (two_modes, 0.005), (heavy, 0.005), (correlated, 0.005), (bursts, 0.03)]
)
def test_false_alarms_stay_rare(series: Callable[[Rng, int], Floats], most: float, means: bool) -> None:
    # Bursts of one collective in ten, three times as long and 20 at a time, are changes that do not last: the rate is
    # what such a job costs. 400 series each of 100 to 2,000 collectives.
    rng = np.random.default_rng(5)
    alarms = sum(bool(strongest(series(rng, int(rng.integers(100, 2000))), ANY_SIZE, means=means)) for _ in range(400))
    assert alarms / 400 <= most


@pytest.mark.parametrize(("share", "fewest"), [(0.1, 18), (0.3, 18), (0.5, 18), (0.8, 18), (0.93, 14)])
def test_a_transfer_that_doubles_is_found_where_it_does(share: float, fewest: int) -> None:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(20):
        values = even(rng, 1000)
        at = int(share * len(values))
        values[at:] *= 2
        here = strongest(values, DEFAULTS)
        if here and abs(here[0].position - at) <= 16:
            found += 1
            assert here[0].after / here[0].before == pytest.approx(2.0, rel=0.2)
    assert found >= fewest


def test_a_part_in_the_middle_has_two_ends() -> None:
    values = even(np.random.default_rng(2), 900)
    values[300:600] *= 4
    found = splits(values, DEFAULTS)
    assert [round(one.position, -1) for one in found] == [300, 600]
    assert found[0].after > found[0].before
    assert found[1].after < found[1].before


def test_small_and_short_changes_are_not_told() -> None:
    values = even(np.random.default_rng(3), 1000)
    values[500:] *= 1.3
    assert splits(values, DEFAULTS) == []
    assert splits(values[:50], DEFAULTS) == []
    assert splits(np.zeros(0), DEFAULTS) == []
    assert splits(np.full(500, 0.05), DEFAULTS) == []
    assert splits(np.zeros(500), DEFAULTS, means=True) == []


def test_one_huge_wait_is_no_lasting_change() -> None:
    values = np.zeros(1000)
    values[500] = 10_000.0
    assert splits(values, DEFAULTS, means=True) == []


def test_a_change_carries_its_time_number_and_cost() -> None:
    values = np.r_[np.full(200, 1.0), np.full(200, 3.0)]
    created = np.arange(400) / 100
    (split,) = splits(values, DEFAULTS)
    change = to_change(split, values, created, np.arange(1000, 1400))
    assert (change.seq, change.at) == (1200, 2.0)
    assert (change.before_ms, change.after_ms, change.grew) == (1.0, 3.0, True)
    # 200 times 2 ms on top, in the 1.99 s that remain.
    assert change.share == pytest.approx(0.4 / 1.99)


def test_ranks_of_ties_are_shared_and_the_tail_falls() -> None:
    assert midranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]
    tails = [tail(score, 0.05) for score in (1.0, 2.0, 3.0, 4.0, 5.0, 40.0)]
    assert tails == sorted(tails, reverse=True)
    assert tails[0] == 1.0
