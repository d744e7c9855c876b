"""A rollout that was taken back: what it cost is said as what was, and what still costs is not called over."""

from __future__ import annotations

import pytest

from drift_fleet import DAY, START, fleet
from rankmuster.baseline.drift.examine import examine
from rankmuster.baseline.drift.fleet import Fleet
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.model.drift import DriftKind, DriftScope


def rollout(*, back: int, still_slow: bool = False, other: str = "580.1", loss: float = 0.07) -> Fleet:
    """Twenty of 60 nodes get driver 580.2 on day 10 and are slower; on day 20 the first `back` of them get `other`."""

    def driver(node: int, day: float) -> str:
        if node >= 20 or day < 10:
            return "580.1"
        return other if node < back and day >= 20 else "580.2"

    def speed(node: int, day: float) -> float:
        if node >= 20 or day < 10 or (node < back and day >= 20 and not still_slow):
            return 1.0
        return 1 - loss

    return fleet(60, driver=driver, speed=speed)


def test_a_driver_that_was_taken_back_stops_nothing_and_is_said_to_have_been() -> None:
    report = examine(rollout(back=20))
    assert report.findings == ()
    assert not report.stop_rollout
    assert report.baseline_applies
    assert report.regenerate == ()
    (note,) = [line for line in report.notes if "at their level again" in line]
    assert "was 7" in note or "was 6" in note
    assert "driver: 580.1 -> 580.2" in note
    assert "20 nodes that had it" in note


@pytest.mark.parametrize("asked", [12, 15, 20])
def test_asked_from_within_it_the_baseline_of_before_applies_again(asked: int) -> None:
    report = examine(rollout(back=20), DriftSettings(since=START + asked * DAY))
    assert not report.stop_rollout
    assert report.baseline_applies
    assert report.regenerate == ()
    assert report.why == ()
    (found,) = report.findings
    assert found.kind is DriftKind.VERSION
    assert "the baseline of then applies again" in found.effect


def test_a_driver_that_was_taken_back_in_vain_is_still_to_be_stopped() -> None:
    report = examine(rollout(back=20, still_slow=True))
    assert report.stop_rollout
    assert not any("level again" in line for line in report.notes)


def test_another_driver_that_is_as_slow_does_not_end_it() -> None:
    report = examine(rollout(back=20, still_slow=True, other="580.3"))
    assert report.stop_rollout
    assert not report.baseline_applies


def test_a_third_driver_that_is_as_fast_as_the_first_ends_it() -> None:
    report = examine(rollout(back=20, other="580.3"))
    assert not report.stop_rollout
    assert not report.baseline_applies
    assert any("driver: 580.1 -> 580.2" in line and "level again" in line for line in report.notes)


def test_who_still_has_it_is_named_and_who_has_not_is_counted() -> None:
    report = examine(rollout(back=12))
    assert report.stop_rollout
    loss = next(one for one in report.findings if one.kind is DriftKind.BANDWIDTH)
    assert loss.scope is DriftScope.SYSTEMATIC
    assert loss.nodes == tuple(f"h-{node:04d}" for node in range(12, 20))
    assert "12 other nodes with it are at the old level again" in loss.statement
    assert not any(one.size is not None and one.size > 0 for one in report.findings)


def test_a_driver_that_made_nodes_faster_and_was_taken_back_is_no_loss() -> None:
    report = examine(rollout(back=20, loss=-0.06))
    assert not report.stop_rollout
    assert report.baseline_applies
    assert [one for one in report.findings if one.size is not None] == []
