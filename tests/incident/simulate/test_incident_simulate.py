"""A small fleet in simulated time: a broken fabric opens the breaker, drift fences nobody, single faults are mended."""

from __future__ import annotations

import pytest

from rankmuster.incident.limits import Limits
from rankmuster.incident.simulate.plan import HOUR, ClassDrift, Outage, SimPlan
from rankmuster.incident.simulate.run import Result, simulate

LIMITS = Limits(instances=100, nodes=200, rebuilds_at_once=10, fenced_at_once=8)


def fleet(seed: int, **values: object) -> Result:
    found = simulate(SimPlan(**{"instances": 100, "limits": LIMITS, "hours": 12.0, **values}), seed)
    assert found.twice_open == 0, "two incidents of one instance were open"
    assert found.most_at_once <= found.allowed_at_once
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_broken_fabric_opens_the_breaker_before_rebuilds_become_a_storm(seed: int) -> None:
    found = fleet(seed, outage=Outage(at=2 * HOUR))
    assert found.breaker_after is not None
    assert found.breaker_after <= 60
    assert found.rebuilds_before_breaker is not None
    assert found.rebuilds_before_breaker <= found.allowed_at_once
    # After the quiet time one is tried at a time, and each of those takes minutes to fail.
    assert found.rebuilds_in_outage <= found.rebuilds_before_breaker + 5
    assert found.fenced_by_fabric == 0
    assert found.served_again == found.hit > 90
    assert found.breaker[-1][1] == "closed"


def test_an_outage_of_a_part_is_bounded_too() -> None:
    found = fleet(3, outage=Outage(at=2 * HOUR, share=0.1))
    assert found.served_again == found.hit > 7
    assert found.rebuilds_in_outage <= found.allowed_at_once


@pytest.mark.parametrize("told", [None, 600.0])
def test_nobody_is_fenced_when_a_class_of_nodes_drifts(told: float | None) -> None:
    found = fleet(4, drift=ClassDrift(at=1 * HOUR, told_after=told))
    assert found.opened > 30
    assert found.fenced_by_drift == 0
    assert "recovered" not in found.outcomes or found.outcomes["recovered"] == found.single_recovered


def test_single_faults_are_mended_in_healthy_times() -> None:
    found = fleet(5, hours=48.0)
    assert found.breaker == []
    assert found.single_faults >= 10
    assert found.single_recovered == found.single_faults
    assert found.single_seconds is not None
    assert found.single_seconds < 400


def test_the_same_seed_is_the_same_fleet() -> None:
    plan = {"outage": Outage(at=HOUR), "hours": 4.0}
    assert fleet(6, **plan) == fleet(6, **plan)
    assert fleet(6, **plan) != fleet(7, **plan)
