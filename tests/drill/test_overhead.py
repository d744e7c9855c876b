from __future__ import annotations

import numpy as np
import pytest

from rankmuster.drill import overhead
from rankmuster.drill.overhead import StepTimes, Window, compare, compare_rates, read_steps

SECONDS = 10.0
STEP = 0.002
PER_BLOCK = 10


def job(pairs: int, slower: float, pause: float = 0.0, seed: int = 3) -> tuple[StepTimes, list[Window]]:
    """A job whose steps take `slower` times as long in windows with a collect, which begin with a pause, and which
    drifts by a tenth over its life."""
    random = np.random.default_rng(seed)
    now, ends, steps, windows = 0.0, [], [], []
    for pair, sides in enumerate(overhead.order(pairs, seed)):
        for collecting in sides:
            start, paused = now, collecting
            while now < start + SECONDS:
                drift = 1 + 0.1 * now / (2 * pairs * SECONDS)
                seconds = PER_BLOCK * STEP * drift * random.normal(1, 0.02) * (slower if collecting else 1)
                seconds, paused = seconds + (pause if paused else 0), False
                now += seconds
                ends.append(now)
                steps.append(seconds / PER_BLOCK)
            windows.append(Window(pair, collecting, start, now))
    return StepTimes(np.array(ends), np.array(steps)), windows


def test_a_slowdown_is_found_and_health_is_within_the_interval() -> None:
    found = compare(*job(8, 1.03), seed=1, resamples=400)
    assert found.pairs == 8
    assert found.median.value == pytest.approx(1.03, abs=0.004)
    assert found.median.low <= found.median.value <= found.median.high
    assert found.median.low > 1.0
    level = compare(*job(8, 1.0), seed=1, resamples=400)
    assert level.median.low < 1.0 < level.median.high
    assert level.median.high - level.median.low < 0.02


def test_a_short_pause_hides_from_the_median_and_not_from_the_mean() -> None:
    found = compare(*job(8, 1.0, pause=0.5), seed=1, resamples=200)
    assert found.median.value == pytest.approx(1.0, abs=0.004)
    assert found.mean.value == pytest.approx(1.05, abs=0.015)


def test_the_same_seed_gives_the_same_answer() -> None:
    times, windows = job(4, 1.01)
    assert compare(times, windows, 5, 50) == compare(times, windows, 5, 50)
    assert overhead.order(20, 7) == overhead.order(20, 7)
    assert {one for one, _ in overhead.order(20, 7)} == {True, False}
    assert all(one != other for one, other in overhead.order(20, 7))


def test_only_whole_pairs_count() -> None:
    times, windows = job(3, 1.0)
    assert compare(times, windows[:-1], 1, 50).pairs == 2
    with pytest.raises(ValueError, match="no pair has steps in both"):
        compare(times, windows[:1], 1, 50)
    with pytest.raises(ValueError, match="did the job run"):
        compare(StepTimes(np.array([]), np.array([])), windows, 1, 50)


def test_a_block_across_a_boundary_belongs_to_neither_side() -> None:
    times = StepTimes(np.array([1.0, 2.5, 3.0]), np.array([0.1, 0.2, 0.3]))
    assert list(times.within(1.0, 2.6).step) == [0.2]
    assert list(times.within(2.0, 3.0).step) == [0.3]


def test_the_steps_file_is_read_while_it_is_written() -> None:
    times = read_steps("100.5 10 0.020 10\n101.0 20 0.5 10\nnot a line\n101.2 30 0.0")
    assert list(times.end) == [100.5, 101.0]
    assert list(times.step) == pytest.approx([0.002, 0.05])
    assert len(read_steps("").end) == 0


def test_rates_are_compared_within_pairs_whatever_drifts() -> None:
    random = np.random.default_rng(5)
    rates = []
    for pair in range(10):
        level = 100 * (1 + 0.05 * pair)
        rates += [(pair, with_, level * (0.97 if with_ else 1) * random.normal(1, 0.003)) for with_ in (True, False)]
    found = compare_rates(rates, 1)
    assert found.value == pytest.approx(0.97, abs=0.004)
    assert found.low < found.value < found.high < 1.0
    assert compare_rates(rates, 1) == found
    with pytest.raises(ValueError, match="no pair has a rate in both"):
        compare_rates(rates[:1], 1)
    with pytest.raises(ValueError, match="did the job run"):
        compare_rates([(0, True, 1.0), (0, False, 0.0)], 1)
