"""Nodes that change: another driver, another node of the same name, a fleet that is rolled over, and what is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kube_admission_world import STARTUP, World, condition, old_world, phase, taken

from rankmuster.model.unknown import Unknown


def passed_world(folder: Path, **settings: object) -> World:
    """With one node that has passed."""
    world = old_world(folder, **settings)
    world.cluster.node("n", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("n") == "Passed")
    return world


def test_a_node_with_another_driver_is_kept_out_and_tested_again(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    world.driver("n", "595.10.01")
    assert world.turns(lambda: world.tainted("n"), seconds=60)
    now = world.now("n")
    assert "580.65.06 -> 595.10.01" in now["spec"]["trigger"]
    assert phase(world.admissions("n")[0]) == "Outdated"
    assert world.turns(lambda: world.phase("n") == "Passed")
    assert not world.tainted("n")
    world.close()


def test_a_node_that_becomes_what_it_was_before_is_tested_again_too(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    for version in ("595.10.01", "580.65.06", "595.10.01"):
        world.driver("n", version)
        world.work.turn(1e9)
    assert world.tainted("n")
    assert len(world.admissions("n")) == 4
    assert world.turns(lambda: world.phase("n") == "Passed")
    assert "580.65.06 -> 595.10.01" in world.now("n")["spec"]["trigger"]
    world.close()


def test_the_driver_changes_while_the_job_runs_and_its_result_does_not_count(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("n", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("n") == "Testing")
    first = world.now("n")["metadata"]["name"]
    world.driver("n", "595.10.01")
    assert world.turns(lambda: len(world.admissions("n")) == 2, seconds=60)
    assert world.tainted("n")
    assert world.turns(lambda: world.phase("n") == "Passed")
    assert world.now("n")["metadata"]["name"] != first
    assert world.history is not None
    assert len(world.history.admissions(node="n")) == 1, "only the second Job's result was stored"
    world.close()


def test_a_node_that_is_replaced_under_its_name_is_a_new_one(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    world.store.delete("nodes", None, "n")
    world.cluster.settle()
    world.cluster.node("n", gpus=4)
    assert world.turns(lambda: world.tainted("n"), seconds=60)
    assert world.turns(lambda: world.phase("n") == "Passed")
    raw = world.store.get("nodes", None, "n")
    assert world.now("n")["spec"]["nodeUid"] == raw["metadata"]["uid"]
    world.close()


def test_a_node_that_goes_away_during_its_job_leaves_no_job_behind(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("n", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("n") == "Testing")
    world.store.delete("nodes", None, "n")
    assert world.turns(lambda: not world.jobs(), seconds=600)
    assert all(phase(one) == "Outdated" for one in world.admissions("n"))
    world.close()


def test_while_the_gpu_operator_upgrades_a_driver_nothing_is_done(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    world.label("n", nvidia__x="y")
    state = "nvidia.com/gpu-driver-upgrade-state"
    world.store.patch("nodes", None, "n", {"metadata": {"labels": {state: "drain-required"}}}, kind="merge")
    world.driver("n", "595.10.01")
    world.turns(lambda: False, seconds=600)
    assert not world.tainted("n")
    assert world.phase("n") == "Passed"
    world.store.patch("nodes", None, "n", {"metadata": {"labels": {state: "upgrade-done"}}}, kind="merge")
    assert world.turns(lambda: world.tainted("n"), seconds=60)
    assert world.turns(lambda: world.phase("n") == "Passed")
    world.close()


def test_facts_that_come_late_or_go_for_a_moment_are_no_change(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    name = world.now("n")["metadata"]["name"]
    world.label("n", **{"feature.node.kubernetes.io__memory-numa": "true"})
    status = {"allocatable": {"nvidia.com/gpu": "0"}}
    world.store.patch("nodes", None, "n", {"status": status}, kind="merge", subresource="status")
    world.turns(lambda: False, seconds=120)
    status = {"allocatable": {"nvidia.com/gpu": "4"}}
    world.store.patch("nodes", None, "n", {"status": status}, kind="merge", subresource="status")
    world.turns(lambda: False, seconds=120)
    assert not world.tainted("n")
    assert world.now("n")["metadata"]["name"] == name
    assert "memory-numa" in world.now("n")["metadata"]["annotations"]["rankmuster.dev/watched-facts"]
    world.label("n", **{"feature.node.kubernetes.io__memory-numa": "false"})
    assert world.turns(lambda: world.tainted("n"), seconds=60), "the same fact with another value is one"
    world.close()


def test_what_the_agent_has_read_counts_once_it_is_known(tmp_path: Path) -> None:
    world = passed_world(tmp_path)
    found = taken("n").fingerprint
    world.fingerprints["n"] = found
    world.label("n", told="1")
    world.turns(lambda: False, seconds=60)
    assert not world.tainted("n"), "an agent that answers late is no change"
    world.fingerprints["n"] = replace(found, topology_hash=Unknown("NVML hung"), driver="595.10.01")
    world.label("n", told="2")
    assert world.turns(lambda: world.tainted("n"), seconds=60)
    assert "agent: driver" in world.now("n")["spec"]["trigger"]
    assert "topology" not in world.now("n")["spec"]["trigger"]
    world.close()


def test_a_job_that_saw_other_gpus_than_the_agent_is_not_believed(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.fingerprints["n"] = taken("somebody-else").fingerprint
    world.cluster.node("n", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("n") == "Error")
    assert "other GPUs or NICs" in condition(world.now("n"), "Tested")["message"]
    assert world.tainted("n")
    world.close()


def test_a_node_whose_gpus_nobody_offers_says_why_nothing_happens(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("n", gpus=0, taints=[STARTUP])
    world.turns(lambda: False, seconds=300)
    assert "tolerate the taint" in condition(world.now("n"), "Tested")["message"]
    status = {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}
    world.store.patch("nodes", None, "n", {"status": status}, kind="merge", subresource="status")
    assert world.turns(lambda: world.phase("n") == "Passed")
    world.close()


def test_cordoned_and_unready_nodes_are_waited_for(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("n", gpus=4, taints=[STARTUP])
    world.store.patch("nodes", None, "n", {"spec": {"unschedulable": True}}, kind="merge")
    world.turns(lambda: False, seconds=600)
    assert condition(world.now("n"), "Tested")["reason"] == "Cordoned"
    assert world.jobs() == []
    world.store.patch("nodes", None, "n", {"spec": {"unschedulable": False}}, kind="merge")
    assert world.turns(lambda: world.phase("n") == "Passed")
    world.close()


def test_outdated_admissions_are_kept_in_a_small_number(tmp_path: Path) -> None:
    world = passed_world(tmp_path, keep=2)
    for number in range(5):
        world.driver("n", f"595.{number}.0")
        assert world.turns(lambda: world.phase("n") == "Passed" and not world.tainted("n"))
        world.turns(lambda: False, seconds=30)
    assert len(world.admissions("n")) == 3
    world.close()


def test_a_fleet_whose_drivers_all_change_at_once_is_kept_out_a_share_at_a_time(tmp_path: Path) -> None:
    world = World(tmp_path, share=0.1, at_once=8, per_minute=30)
    names = [f"n{number:03}" for number in range(300)]
    for name in names:
        world.cluster.node(name, gpus=4)
    assert world.turns(lambda: list(world.phases().values()).count("Provisional") == 300)
    world.cluster.run(60)
    for name in names:
        world.driver(name, "595.10.01")
    most_out = most_jobs = 0

    def done() -> bool:
        nonlocal most_out, most_jobs
        most_out = max(most_out, len(world.out()))
        running = [one for one in world.store.rows("jobs.batch") if (one.get("status") or {}).get("active")]
        most_jobs = max(most_jobs, len(running))
        return list(world.phases().values()).count("Passed") >= 40

    world.turns(done, seconds=60)
    over = [condition(world.now(name), "Tainted") for name in names]
    assert sum(one.get("reason") == "ShareReached" for one in over) >= 260
    assert all("share" in one["message"] for one in over if one.get("reason") == "ShareReached")
    assert world.turns(done, seconds=3_600, every=60)
    assert most_out == 30
    assert most_jobs <= 8
    for name in set(names) - world.out():
        assert world.phase(name) in ("Pending", "Passed")
    world.close()
