"""Many nodes at once: what is systematic is said to be, with what the slow nodes share, and a rollout is stopped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from drift_fleet import DAY, START, fingerprint, fleet
from rankmuster.baseline.drift.attribute import attribute, attributes_of
from rankmuster.baseline.drift.chance import at_least, shares_at_least
from rankmuster.baseline.drift.examine import examine
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.systematic import together
from rankmuster.model.drift import DriftKind, DriftScope
from rankmuster.model.history import ChangeState

SETTINGS = DriftSettings()


def test_a_driver_that_slows_8_percent_of_the_nodes_is_named_and_the_rollout_is_to_stop() -> None:
    report = examine(
        fleet(
            100,
            driver=lambda node, day: "580.2" if node < 8 and day >= 20 + node / 4 else "580.1",
            speed=lambda node, day: 0.93 if node < 8 and day >= 20 + node / 4 else 1.0,
        )
    )
    assert report.stop_rollout
    loss = report.findings[0]
    assert (loss.kind, loss.scope) == (DriftKind.BANDWIDTH, DriftScope.SYSTEMATIC)
    assert loss.nodes == tuple(f"h-{node:04d}" for node in range(8))
    assert "all 8 nodes with driver 580.2, none of the 92 with 580.1" in loss.statement
    assert loss.size == pytest.approx(-0.07, abs=0.02)
    assert loss.change is not None
    assert (loss.change.before, loss.change.after) == ("580.1", "580.2")
    assert not any(one.scope is DriftScope.NODE and one.kind is DriftKind.BANDWIDTH for one in report.findings)


def test_a_rollout_that_slows_nobody_is_told_and_not_stopped() -> None:
    report = examine(fleet(60, driver=lambda node, day: "580.2" if node < 20 and day >= 20 else "580.1"))
    assert not report.stop_rollout
    (found,) = report.findings
    assert (found.kind, found.scope) == (DriftKind.VERSION, DriftScope.SYSTEMATIC)
    assert len(found.nodes) == 20
    assert not report.baseline_applies


def test_many_that_slow_together_under_one_fingerprint_are_systematic_without_a_known_cause() -> None:
    report = examine(fleet(60, speed=lambda node, day: 0.9 if node < 6 and day >= 20 else 1.0))
    assert report.stop_rollout
    (found,) = [one for one in report.findings if one.kind is DriftKind.BANDWIDTH]
    assert found.scope is DriftScope.SYSTEMATIC
    assert len(found.nodes) == 6
    assert "no part of their fingerprints separates them" in found.statement


@pytest.mark.parametrize("spell", [(5, 10), (8, 16), (10, 20), (6, 20)])
def test_many_at_their_level_again_are_no_systematic_drift(spell: tuple[int, int]) -> None:
    made = fleet(30, speed=lambda node, day: 0.9 if node < 10 and spell[0] <= day < spell[1] else 1.0)
    report = examine(made)
    assert report.findings == ()
    assert not report.stop_rollout


def test_nodes_that_slow_weeks_apart_are_single_nodes() -> None:
    report = examine(fleet(60, speed=lambda node, day: 0.9 if node < 3 and day >= 8 + 6 * node else 1.0))
    found = [one for one in report.findings if one.kind is DriftKind.BANDWIDTH]
    assert {one.scope for one in found} == {DriftScope.NODE}
    assert len(found) == 3
    assert not report.stop_rollout


def test_a_few_that_creep_each_by_itself_are_single_nodes() -> None:
    report = examine(fleet(60, days=40, speed=lambda node, day: 0.985 ** (day / 7) if node < 3 else 1.0))
    found = [one for one in report.findings if one.kind is DriftKind.BANDWIDTH]
    assert [one.scope for one in found] == [DriftScope.NODE] * 3
    assert not report.stop_rollout


def test_a_whole_class_that_slows_is_found_with_its_change_point_open() -> None:
    report = examine(fleet(12, speed=lambda _node, day: 0.92 if day >= 20 else 1.0))
    assert report.stop_rollout
    pointed = [one for one in report.findings if one.point is not None]
    assert pointed
    point = pointed[0].point
    assert point is not None
    assert point.state is ChangeState.OPEN
    assert point.id is None
    assert abs(point.at - (START + 20 * DAY)) < 3 * DAY


def test_a_step_that_somebody_has_judged_is_not_found_again() -> None:
    made = fleet(12, speed=lambda _node, day: 0.92 if day >= 20 else 1.0)
    (history,) = made.histories
    found = [one.point for one in examine(made).findings if one.point is not None]
    judged = tuple(replace(point, state=ChangeState.DISMISSED, id=7) for point in found)
    again = examine(replace(made, histories=(replace(history, change_points=judged),)))
    assert [one for one in again.findings if one.point is not None] == []


def test_a_bad_week_of_a_whole_class_that_is_over_stops_nothing_and_is_kept_out_by_a_person() -> None:
    made = fleet(12, speed=lambda _node, day: 0.92 if 12 <= day < 19 else 1.0)
    report = examine(made)
    assert not report.stop_rollout
    (found,) = report.findings
    assert found.size is None
    assert "as a whole was 7" in found.statement or "as a whole was 8" in found.statement
    assert "is at its level again" in found.statement
    assert found.point is not None
    assert abs(found.point.at - (START + 12 * DAY)) < DAY
    end = re.search(r"dismiss ID --until (\d+)", found.effect)
    assert end is not None
    assert abs(float(end[1]) - (START + 19 * DAY)) < DAY
    # once decided so, neither its beginning nor its end is told again
    (history,) = made.histories
    judged = replace(found.point, state=ChangeState.DISMISSED, id=7, until=float(end[1]))
    assert examine(replace(made, histories=(replace(history, change_points=(judged,)),))).findings == ()


def test_a_class_that_came_half_the_way_back_is_still_slow() -> None:
    report = examine(fleet(12, speed=lambda _node, day: 1.0 if day < 12 else 0.85 if day < 19 else 0.92))
    assert report.stop_rollout


def test_a_laboratory_of_one_node_that_is_at_its_level_again_has_not_drifted() -> None:
    report = examine(fleet(1, days=40, speed=lambda _node, day: 0.9 if 12 <= day < 24 else 1.0))
    assert all("is at its level again" in one.statement for one in report.findings)
    assert not report.stop_rollout


def test_a_step_that_is_marked_already_comes_with_its_number() -> None:
    made = fleet(12, speed=lambda _node, day: 0.92 if day >= 20 else 1.0)
    (history,) = made.histories
    found = [one.point for one in examine(made).findings if one.point is not None]
    marked = tuple(replace(point, id=7) for point in found)
    again = examine(replace(made, histories=(replace(history, change_points=marked),)))
    assert {one.point.id for one in again.findings if one.point is not None} == {7}


def test_a_fleet_far_from_healthy_names_what_separates_the_slow_half() -> None:
    settings = {node: {"NCCL_PROTO": "LL"} if node % 2 else {} for node in range(40)}
    made = fleet(40)
    attributes = {
        f"h-{node:04d}": attributes_of(replace(made.nodes[node].fingerprints[0], settings=settings[node]))
        for node in range(40)
    }
    (shared,) = attribute([f"h-{node:04d}" for node in range(1, 40, 2)], attributes, SETTINGS)
    assert shared.words == "all 20 nodes with NCCL_PROTO LL, none of the 20 with unset"


def test_a_rack_shows_where_it_is_in_the_names() -> None:
    attributes = {
        f"gpu-r{rack:02d}-{node:02d}": attributes_of(fingerprint(f"gpu-r{rack:02d}-{node:02d}.example"))
        for rack in range(8)
        for node in range(8)
    }
    (shared,) = attribute([f"gpu-r03-{node:02d}" for node in range(8)], attributes, SETTINGS)
    assert shared.words == "all 8 nodes with names like gpu-r03*, none of the 56 with another"


def test_nodes_of_a_rollout_that_nobody_has_measured_since_are_not_called_unharmed() -> None:
    def driver(node: int, day: float) -> str:
        return "580.2" if node < 8 and day >= 20 else "580.1"

    made = fleet(60, driver=driver, speed=lambda node, day: 0.9 if node < 8 and day >= 20 else 1.0)
    late = replace(
        made.nodes[30], fingerprints=(*made.nodes[30].fingerprints[:1], fingerprint("h-0030", day=29.9, driver="580.2"))
    )
    report = examine(replace(made, nodes=(*made.nodes[:30], late, *made.nodes[31:])))
    assert "all 8 nodes with driver 580.2" in report.findings[0].statement


def test_what_changed_together_is_named_together() -> None:
    attributes = {
        f"h-{node}": {"driver": "580.2", "image": "b"} if node < 10 else {"driver": "580.1", "image": "a"}
        for node in range(100)
    }
    shared = attribute([f"h-{node}" for node in range(10)], attributes, SETTINGS)
    assert {one.attribute for one in shared} == {"driver", "image"}


def test_nothing_is_named_that_chance_explains() -> None:
    attributes = {f"h-{node}": {"driver": "580.2" if node < 10 else "580.1"} for node in range(20)}
    assert attribute(["h-0", "h-1"], attributes, SETTINGS) == ()
    assert attribute([], attributes, SETTINGS) == ()
    assert attribute(list(attributes), attributes, SETTINGS) == ()


def test_the_rule_of_many_grows_with_the_class() -> None:
    def so_many(nodes: int, of: int) -> bool:
        return together({f"h-{n}": START + n for n in range(nodes)}, of, SETTINGS) is not None

    assert not so_many(1, 1)
    assert so_many(2, 2)
    assert not so_many(2, 10)
    assert so_many(3, 10)
    assert not so_many(4, 1000)
    assert so_many(12, 1000)


def test_the_tails_are_those_of_the_distributions() -> None:
    assert at_least(0, 10, 0.1) == 1.0
    assert at_least(1, 10, 0.1) == pytest.approx(1 - 0.9**10)
    assert at_least(11, 10, 0.1) == 0.0
    # the lady tasting tea: 4 of 4 right among 8 cups
    assert shares_at_least(4, 4, 4, 8) == pytest.approx(1 / 70)
    assert shares_at_least(3, 4, 4, 8) == pytest.approx(17 / 70)


def test_statements_say_dates_that_people_can_read() -> None:
    report = examine(fleet(20, speed=lambda node, day: 0.9 if node == 7 and day >= 20 else 1.0))
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d UTC", report.findings[0].statement)
