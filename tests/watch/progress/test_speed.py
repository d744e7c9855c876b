"""Slow by the instance's own measure, and not by its load."""

from __future__ import annotations

import numpy as np
import pytest

from rankmuster.watch.progress.loaded import Interval
from rankmuster.watch.progress.speed import DEFAULTS, Speed, SpeedKind


class Fed:
    """A speed that is fed with intervals of `rate` tokens per second and request, noise of a tenth on it."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.at = 0.0
        self.random = np.random.default_rng(1)

    def __call__(self, count: int, rate: float, running: float = 8.0, every: int = 1, slow: float = 1.0) -> SpeedKind:
        for number in range(count):
            self.at += 5.0
            factor = slow if number % every == 0 else 1.0
            tokens = rate * factor * running * 5 * self.random.normal(1, 0.1)
            self.speed.add([Interval(("s", "vllm", "0"), self.at, 5.0, running, tokens, True, True, True, False)])
        return self.speed.view().kind


@pytest.fixture
def fed() -> Fed:
    return Fed(Speed())


def test_its_usual_speed_is_usual(fed: Fed) -> None:
    assert fed(3000, 40.0) is SpeedKind.USUAL


def test_a_lasting_loss_is_persistent_however_long_it_lasts_and_then_over(fed: Fed) -> None:
    fed(300, 40.0)
    assert fed(DEFAULTS.recent, 20.0) is SpeedKind.PERSISTENT
    assert fed(2000, 20.0) is SpeedKind.PERSISTENT
    assert fed(DEFAULTS.recent, 40.0) in (SpeedKind.USUAL, SpeedKind.TAIL)
    assert fed(200, 40.0) is SpeedKind.USUAL


def test_some_slow_intervals_are_a_tail(fed: Fed) -> None:
    fed(300, 40.0)
    assert fed(DEFAULTS.long, 40.0, every=3, slow=0.3) is SpeedKind.TAIL


def test_more_load_is_not_slowness(fed: Fed) -> None:
    fed(300, 40.0, running=4)
    assert fed(300, 10.0, running=64) is not SpeedKind.PERSISTENT


def test_a_slow_start_is_seen_with_a_baseline(fed: Fed) -> None:
    fed(500, 40.0)
    assert Fed(Speed(baseline=fed.speed.baseline()))(60, 20.0) is SpeedKind.PERSISTENT
    assert Fed(Speed())(60, 20.0) is not SpeedKind.PERSISTENT


def test_the_reason_has_both_numbers(fed: Fed) -> None:
    fed(300, 40.0)
    fed(DEFAULTS.recent, 20.0)
    assert "usually 40" in fed.speed.view().reason or "usually 39" in fed.speed.view().reason
