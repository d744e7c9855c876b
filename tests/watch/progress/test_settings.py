"""Other periods: looks that come faster show stops sooner, and never sooner than one is believed."""

from __future__ import annotations

import pytest

from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings


@pytest.mark.parametrize("period", [1.0, 2.0, 5.0, 15.0, 60.0])
def test_a_stop_takes_two_looks_and_never_less_than_diagnose_asks_for(period: float) -> None:
    settings = WatchSettings.of(period)
    limits = settings.thresholds()
    assert limits.stall_seconds >= max(DIAGNOSE.stall_seconds, 1.8 * period)
    assert limits.hardware_seconds >= DIAGNOSE.hardware_seconds
    assert limits.stall_seconds <= max(2 * period, DIAGNOSE.stall_seconds)
    assert settings.window_seconds >= 12 * period
    assert settings.hold_seconds >= 3 * period
    assert settings.most_pages >= settings.window_seconds / period or period < 2


def test_the_default_period_has_the_defaults() -> None:
    assert WatchSettings.of(5.0) == DEFAULTS == WatchSettings()
    assert DEFAULTS.sample_seconds == 2.5
    assert DEFAULTS.most_samples * DEFAULTS.sample_seconds >= DEFAULTS.window_seconds
