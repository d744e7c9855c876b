"""One node: what changed of it, what its results did, and what cannot be told, each said so that somebody can act."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drift_fleet import DAY, PROFILE, START, Made, fingerprint, fleet
from rankmuster.baseline.drift.examine import examine
from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.drift import DriftFinding, DriftKind, DriftReport, DriftScope
from rankmuster.model.fingerprint import NetworkDevice
from rankmuster.model.unknown import Unknown

LOSSES = (DriftKind.BANDWIDTH, DriftKind.LATENCY)


def losses(report: DriftReport) -> list[DriftFinding]:
    return [one for one in report.findings if one.kind in LOSSES]


def one_node(before: dict[str, object], after: dict[str, object]) -> DriftReport:
    """Of a node whose fingerprint says other things now, without results."""
    prints = (fingerprint("h-1", **before), fingerprint("h-1", day=10, **after))  # type: ignore[arg-type]
    return examine(Fleet((NodePast("h-1", "node-h-1", prints),), (), START + 10 * DAY))


def test_a_healthy_fleet_has_no_finding() -> None:
    report = examine(fleet(40))
    assert report.findings == ()
    assert report.unknown == ()
    assert report.baseline_applies
    assert not report.stop_rollout


def test_a_node_that_loses_a_tenth_is_found_alone_with_its_day() -> None:
    report = examine(fleet(40, speed=lambda node, day: 0.9 if node == 7 and day >= 20 else 1.0))
    (found,) = losses(report)
    assert found.nodes == ("h-0007",)
    assert (found.kind, found.scope) == (DriftKind.BANDWIDTH, DriftScope.NODE)
    assert found.size == pytest.approx(-0.1, abs=0.02)
    assert found.since is not None
    assert abs(found.since - (START + 20 * DAY)) < 1.5 * DAY
    assert "rankmuster admit" in found.effect
    assert report.baseline_applies
    assert not report.stop_rollout


def test_two_slow_runs_are_found_and_one_is_left_to_a_retest() -> None:
    found = losses(examine(fleet(20, speed=lambda node, day: 0.85 if node == 3 and day >= 28 else 1.0)))
    assert [one.nodes for one in found] == [("h-0003",)]
    assert losses(examine(fleet(20, speed=lambda node, day: 0.85 if node == 3 and day >= 29 else 1.0))) == []


def test_a_loss_of_one_percent_a_week_is_found_and_called_creeping() -> None:
    (found,) = losses(examine(fleet(20, days=40, speed=lambda node, day: 0.99 ** (day / 7) if node == 7 else 1.0)))
    assert found.nodes == ("h-0007",)
    assert "little by little" in found.statement
    assert "% a week" in found.statement
    assert found.size == pytest.approx(-0.055, abs=0.02)


def test_a_node_that_came_back_from_a_bad_week_has_not_drifted() -> None:
    report = examine(fleet(20, speed=lambda node, day: 0.85 if node == 3 and 12 <= day < 19 else 1.0))
    assert losses(report) == []


@pytest.mark.parametrize("spell", [(5, 10), (8, 16), (10, 20), (6, 20), (2, 25), (15, 27), (20, 28)])
@pytest.mark.parametrize("since", [None, 9, 22])
def test_a_node_at_its_level_again_has_not_drifted_however_long_it_was_slow(
    spell: tuple[int, int], since: int | None
) -> None:
    made = fleet(20, speed=lambda node, day: 0.9 if node == 5 and spell[0] <= day < spell[1] else 1.0)
    asked = DriftSettings(since=None if since is None else START + since * DAY)
    assert losses(examine(made, asked)) == []


def test_a_node_that_came_half_the_way_back_is_still_slow() -> None:
    made = fleet(20, speed=lambda node, day: 1.0 if node != 5 or day < 20 else 0.85 if day < 25 else 0.93)
    (found,) = losses(examine(made))
    assert found.size is not None
    assert found.size < -0.05


def test_a_node_that_gets_faster_than_it_ever_was_is_found() -> None:
    (found,) = losses(examine(fleet(20, speed=lambda node, day: 1.1 if node == 5 and day >= 15 else 1.0)))
    assert found.nodes == ("h-0005",)
    assert found.size is not None
    assert found.size > 0.07


def test_a_node_that_is_slow_again_after_a_repair_has_drifted() -> None:
    made = fleet(20, speed=lambda node, day: 0.9 if node == 5 and not 5 <= day < 20 else 1.0)
    (found,) = losses(examine(made))
    assert found.nodes == ("h-0005",)
    assert found.size is not None
    assert found.size < 0


def test_ranks_that_are_together_again_have_not_drifted_apart() -> None:
    made = Made()
    for node in range(10):
        for day in range(30):
            made.run(f"h-{node}", "class-580.1", day, spread=12.0 if node == 4 and 11 <= day < 25 else 1.5)
    nodes = tuple(
        NodePast(f"h-{node}", f"node-h-{node}", (fingerprint(f"h-{node}"), fingerprint(f"h-{node}", day=30)))
        for node in range(10)
    )
    assert examine(Fleet(nodes, made.histories(), START + 30 * DAY)).findings == ()


def test_a_drift_from_before_the_asked_time_is_not_told_again() -> None:
    made = fleet(20, speed=lambda node, day: 0.9 if node == 3 and day >= 10 else 1.0)
    assert len(losses(examine(made))) == 1
    assert losses(examine(made, DriftSettings(since=START + 20 * DAY))) == []


def test_small_sizes_of_two_modes_are_no_drift_for_some_slow_runs_in_a_row() -> None:
    made = Made()
    for node in range(30):
        for day in range(30):
            slow = node == 4 and day >= 27
            made.run(f"h-{node}", "class-580.1", day, small=1.4 if slow else 1.0)
    nodes = tuple(
        NodePast(f"h-{node}", f"node-h-{node}", (fingerprint(f"h-{node}"), fingerprint(f"h-{node}", day=30)))
        for node in range(30)
    )
    assert losses(examine(Fleet(nodes, made.histories(), START + 30 * DAY))) == []


def test_a_changed_driver_is_no_drift_of_the_node_and_ends_its_baseline() -> None:
    def driver(node: int, day: float) -> str:
        return "580.2" if node == 2 and day >= 20 else "580.1"

    report = examine(fleet(20, driver=driver, speed=lambda node, day: 0.9 if node == 2 and day >= 20 else 1.0))
    assert not report.baseline_applies
    assert any("driver: 580.1 -> 580.2" in why for why in report.why)
    assert any(f"profile {PROFILE}" in line and "class-580.2" in line for line in report.regenerate)
    (version,) = [one for one in report.findings if one.kind is DriftKind.VERSION]
    assert version.nodes == ("h-0002",)
    (loss,) = losses(report)
    assert loss.change is not None
    assert loss.change.part == "driver"
    assert "not the node" in loss.effect
    assert "test it" not in loss.effect


def test_a_driver_that_changes_nothing_is_no_loss() -> None:
    report = examine(fleet(20, driver=lambda node, day: "580.2" if node == 2 and day >= 20 else "580.1"))
    assert losses(report) == []
    assert not report.baseline_applies


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ({"driver": "580.2"}, DriftKind.VERSION),
        ({"nccl_version": "2.29.1"}, DriftKind.VERSION),
        ({"image_digest": "sha256:" + "ef" * 32}, DriftKind.VERSION),
        ({"settings": {"NCCL_PROTO": "LL"}}, DriftKind.SETTING),
        ({"topology_hash": "sha256:" + "99" * 32, "class_hash": "class-other"}, DriftKind.TOPOLOGY),
        ({"nic_order": (1, 0, 2, 3, 4, 5, 6, 7), "class_hash": "class-other"}, DriftKind.NIC),
        (
            {
                "network_device_set": (NetworkDevice("MT4129", "InfiniBand", 200.0, "28.39.1002", 8),),
                "class_hash": "class-other",
            },
            DriftKind.NIC,
        ),
    ],
)
def test_whatever_a_result_depends_on_ends_the_baseline(after: dict[str, object], kind: DriftKind) -> None:
    after = after if "class_hash" in after else {**after, "class_hash": "class-other"}
    report = one_node({"class_hash": "class-one"}, after)
    assert kind in {one.kind for one in report.findings}
    assert not report.baseline_applies
    assert report.why


def test_another_profile_measured_last_is_no_drift() -> None:
    report = one_node({}, {"nccl_test_profile": PROFILE})
    assert report.findings == ()
    assert report.baseline_applies


def test_an_unknown_part_is_named_with_its_reason_and_is_no_finding() -> None:
    reason = Unknown("no NVML: give --pid")
    report = one_node({}, {"driver": reason, "class_hash": Unknown("driver unknown: no NVML")})
    assert report.findings == ()
    assert any("driver" in line and "no NVML: give --pid" in line for line in report.unknown)
    assert any("its class cannot be told" in line for line in report.unknown)


def test_a_node_without_a_stored_fingerprint_is_said_to_have_none() -> None:
    alone = NodePast("h-1", "node-h-1", (fingerprint("h-1"),), now_is_live=True)
    report = examine(Fleet((alone,), (), START))
    assert any("h-1: no fingerprint of it was stored before" in line for line in report.unknown)
    assert any("the history has no results of it" in line for line in report.unknown)


def test_only_errored_runs_are_counted_by_how_they_ended() -> None:
    prints = (fingerprint("h-1"), fingerprint("h-1", day=5))
    node = NodePast("h-1", "node-h-1", prints, runs={"error": 3, "contended": 2})
    report = examine(Fleet((node,), (), START))
    assert any("2 contended, 3 error" in line for line in report.unknown)


def test_too_few_runs_are_counted_and_what_would_tell_is_said() -> None:
    made = Made()
    for day in range(4):
        made.run("h-1", "class-580.1", day)
    prints = (fingerprint("h-1"), fingerprint("h-1", day=5))
    report = examine(Fleet((NodePast("h-1", "node-h-1", prints),), made.histories(), START + 5 * DAY))
    (line,) = report.unknown
    assert "4 runs" in line
    assert "7 are needed" in line
    assert "rankmuster admit" in line


def test_what_was_stored_and_measured_long_ago_says_nothing_of_now() -> None:
    report = examine(fleet(3, days=20), DriftSettings(since=START + 40 * DAY))
    assert report.findings == ()
    lines = [line for line in report.unknown if line.startswith("h-0001")]
    assert any("its newest fingerprint is of" in line for line in lines)
    assert any("its newest result is of" in line for line in lines)


def test_another_machine_of_the_same_name_has_no_past() -> None:
    def gpus(first: int) -> dict[str, object]:
        return {"gpus": [{"index": n, "uuid": f"GPU-{first + n}", "model": "NVIDIA H200"} for n in range(8)]}

    report = one_node({"made_from": gpus(0)}, {"made_from": gpus(100), "node_hash": "node-other"})
    assert any("another machine has its name now" in line for line in report.unknown)
    assert report.findings == ()


def test_results_go_on_where_one_gpu_was_replaced() -> None:
    def gpus(last: str) -> dict[str, object]:
        uuids = [*(f"GPU-{n}" for n in range(7)), last]
        return {"gpus": [{"index": n, "uuid": uuid, "model": "NVIDIA H200"} for n, uuid in enumerate(uuids)]}

    made = fleet(10, speed=lambda node, day: 0.9 if node == 3 and day >= 20 else 1.0)
    old = made.nodes[3]
    prints = (
        replace(old.fingerprints[0], made_from=gpus("GPU-7")),
        replace(old.fingerprints[1], made_from=gpus("GPU-8"), node_hash="node-new"),
    )
    node = NodePast(old.name, "node-new", prints, earlier_hashes=("node-h-0003",))
    report = examine(Fleet((*made.nodes[:3], node, *made.nodes[4:]), made.histories, made.now))
    assert [one.nodes for one in losses(report)] == [("h-0003",)]


def test_ranks_that_drift_apart_are_found_before_the_whole_is_slower() -> None:
    made = Made()
    for node in range(10):
        for day in range(30):
            made.run(f"h-{node}", "class-580.1", day, spread=12.0 if node == 4 and day >= 24 else 1.5)
    nodes = tuple(
        NodePast(f"h-{node}", f"node-h-{node}", (fingerprint(f"h-{node}"), fingerprint(f"h-{node}", day=30)))
        for node in range(10)
    )
    (found,) = examine(Fleet(nodes, made.histories(), START + 30 * DAY)).findings
    assert (found.kind, found.nodes) == (DriftKind.DISPERSION, ("h-4",))
    assert "slowest rank takes 12 % longer" in found.statement


def test_a_node_where_nccl_chooses_otherwise_than_in_its_class_is_found() -> None:
    usual = (AlgorithmChoice("all_reduce", 1 << 28, "NVLS", "SIMPLE", 24),)
    other = (AlgorithmChoice("all_reduce", 1 << 28, "RING", "LL", 24),)
    made = Made()
    for node in range(10):
        for day in range(12):
            made.run(f"h-{node}", "class-580.1", day, choices=other if node == 4 and day >= 9 else usual)
    nodes = tuple(
        NodePast(f"h-{node}", f"node-h-{node}", (fingerprint(f"h-{node}"), fingerprint(f"h-{node}", day=12)))
        for node in range(10)
    )
    (found,) = examine(Fleet(nodes, made.histories(), START + 12 * DAY)).findings
    assert (found.kind, found.nodes) == (DriftKind.CHOICE, ("h-4",))
    assert "RING/LL" in found.statement
    assert "NVLS/SIMPLE" in found.statement
    assert found.since == pytest.approx(START + 9 * DAY)
