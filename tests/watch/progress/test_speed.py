"""Slow by the instance's own measure, and not by its load."""

from __future__ import annotations

import numpy as np
import pytest

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.watch.progress.loaded import Interval, newest
from rankmuster.watch.progress.speed import DEFAULTS, Speed, SpeedKind
from rankmuster.watch.progress.window import Loaded


class Fed:
    """A speed that is fed with intervals of `rate` tokens per second and request, noise of a tenth on it."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.at = 0.0
        self.random = np.random.default_rng(1)

    def __call__(
        self, count: int, rate: float, running: float = 8.0, every: int = 1, slow: float = 1.0, cache: float = 0.1
    ) -> SpeedKind:
        for number in range(count):
            self.at += 5.0
            factor = slow if number % every == 0 else 1.0
            tokens = rate * factor * running * 5 * self.random.normal(1, 0.1)
            name = ("s", "vllm", "0")
            one = Interval(name, self.at, 5.0, running, tokens, True, True, True, False, cache=cache)
            self.speed.add([one])
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


def test_longer_contexts_are_not_slowness(fed: Fed) -> None:
    """Each step reads all of the cache that is in use: eight long documents decode at a third of eight short chats."""
    fed(300, 40.0, cache=0.05)
    assert fed(300, 14.0, cache=0.8) is not SpeedKind.PERSISTENT
    fed(300, 40.0, cache=0.05)
    assert fed(60, 7.0, cache=0.8) is SpeedKind.PERSISTENT


def test_a_loss_at_the_same_contexts_is_seen_though_the_cache_fills_a_little(fed: Fed) -> None:
    fed(300, 40.0, cache=0.05)
    assert fed(DEFAULTS.recent, 20.0, cache=0.08) is SpeedKind.PERSISTENT


def test_a_slow_start_is_seen_with_a_baseline(fed: Fed) -> None:
    fed(500, 40.0)
    assert Fed(Speed(baseline=fed.speed.baseline()))(60, 20.0) is SpeedKind.PERSISTENT
    assert Fed(Speed())(60, 20.0) is not SpeedKind.PERSISTENT


def test_the_reason_has_both_numbers(fed: Fed) -> None:
    fed(300, 40.0)
    fed(DEFAULTS.recent, 20.0)
    assert "usually 40" in fed.speed.view().reason or "usually 39" in fed.speed.view().reason


@pytest.mark.parametrize("gauge", ["vllm:kv_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization"])
def test_the_cache_in_use_is_read_from_the_pages(gauge: str) -> None:
    def loaded(at: float, share: float) -> Loaded:
        gauges = {gauge: share, "sglang:num_used_tokens": 9e5}
        return Loaded(at, EnginePage("s", None, "vllm", (EngineStream("0", 1.0, 0.0, {"t": at}, {}, gauges),)))

    (one,) = newest({"s": [loaded(0.0, 0.2), loaded(5.0, 0.4)]})
    assert one.cache == pytest.approx(0.3)
