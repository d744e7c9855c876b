"""Nodes are kept out until a Job on them has passed: what people see of it, from joining to serving."""

from __future__ import annotations

from pathlib import Path

from kube_admission_world import SLOW_RUN, STARTUP, World, alone_payload, condition, old_world, said

from rankmuster.kube.admission.keep import Keeper


def test_a_node_with_the_startup_taint_joins_serves_only_after_it_has_passed(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.jobs())
    assert world.tainted("fresh")
    assert world.phase("fresh") == "Testing"
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    assert not world.tainted("fresh")
    status = world.now("fresh")["status"]
    assert status["decision"] == "pass"
    assert status["class"].startswith("sha256:")
    assert world.history is not None
    (stored,) = world.history.admissions(node="fresh")
    assert (stored.decision, stored.hash) == ("pass", status["record"])
    assert len(world.history.runs(node="fresh")) == 1
    world.close()


def test_a_new_node_without_the_startup_taint_is_tainted_with_our_annotation(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4)
    assert world.turns(lambda: world.tainted("fresh"))
    raw = world.store.get("nodes", None, "fresh")
    assert "admission" in raw["metadata"]["annotations"]["rankmuster.dev/admission-by"]
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    raw = world.store.get("nodes", None, "fresh")
    assert "rankmuster.dev/admission-by" not in raw["metadata"].get("annotations", {})
    world.close()


def test_a_slow_node_is_refused_and_stays_out(tmp_path: Path) -> None:
    world = old_world(tmp_path, pods=lambda node, _: said(alone_payload(node, (SLOW_RUN,))))
    world.cluster.node("slow", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("slow") == "Refused")
    world.turns(lambda: False, seconds=3_600)
    assert world.tainted("slow")
    assert condition(world.now("slow"), "Admitted")["status"] == "False"
    assert len(world.jobs()) == 1
    world.close()


def test_nodes_that_served_before_are_trusted_and_it_is_said_that_nothing_was_measured(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name in ("a", "b"):
        world.cluster.node(name, gpus=4)
    world.cluster.node("cpu-only", gpus=0)
    world.turns(lambda: False, seconds=120)
    for name in ("a", "b"):
        admission = world.now(name)
        assert condition(admission, "Tested")["reason"] == "TrustedOnFirstSight"
        assert "nothing was measured" in condition(admission, "Admitted")["message"]
        assert not world.tainted(name)
    assert world.jobs() == []
    assert world.admissions("cpu-only") == []
    assert {kind for _, kind, _ in world.api.writes} == {"nodeadmissions"}
    world.close()


def test_a_node_that_served_before_and_has_a_record_that_passed_is_known_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.history is not None
    payload = alone_payload("a")
    keeper = Keeper(world.history)
    keeper.keep(keeper.result(payload, "a", (world.settings.job.profile,), None))
    world.cluster.node("a", gpus=4)
    assert world.turns(lambda: world.phase("a") == "Passed", seconds=60)
    assert world.now("a")["status"]["record"] == world.history.admissions(node="a")[0].hash
    assert world.jobs() == []
    world.close()


def test_a_node_of_a_kind_that_nobody_has_measured_is_held_until_a_person_lets_it_in(tmp_path: Path) -> None:
    world = old_world(tmp_path, history=False)
    world.cluster.node("first", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("first") == "Provisional")
    world.turns(lambda: False, seconds=600)
    assert world.tainted("first")
    world.spec("first", release={"by": "ada", "reason": "first of its kind"})
    assert world.turns(lambda: not world.tainted("first"))
    status = world.now("first")["status"]
    assert status["phase"] == "Released"
    assert "ada" in condition(world.now("first"), "Admitted")["message"]
    writes = len(world.api.writes)
    world.turns(lambda: False, seconds=600)
    assert len(world.api.writes) == writes, "what is settled is written no more"
    world.close()


def test_a_release_that_is_taken_back_leads_to_a_test(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.spec("old", release={"by": "ada"})
    assert world.turns(lambda: world.phase("old") == "Released")
    world.spec("old", release=None)
    assert world.turns(lambda: world.tainted("old"))
    assert world.turns(lambda: world.phase("old") == "Passed")
    assert not world.tainted("old")
    world.close()


def test_a_person_asks_for_a_refused_node_to_be_tested_again(tmp_path: Path) -> None:
    runs = {"slow": SLOW_RUN}
    world = old_world(tmp_path, pods=lambda node, _: said(alone_payload(node, (runs.get(node, "ar_1.txt"),))))
    world.cluster.node("slow", gpus=4, taints=[STARTUP])
    assert world.turns(lambda: world.phase("slow") == "Refused")
    runs["slow"] = "ar_2.txt"
    world.spec("slow", again=1)
    assert world.turns(lambda: world.phase("slow") == "Passed")
    assert not world.tainted("slow")
    assert world.now("slow")["status"]["again"] == 1
    world.close()


def test_a_taint_that_somebody_puts_on_an_admitted_node_asks_for_a_test(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    others = {"key": "example.com/mine", "effect": "NoSchedule"}
    world.store.patch("nodes", None, "old", {"spec": {"taints": [STARTUP, others]}}, kind="merge")
    assert world.turns(lambda: world.phase("old") == "Testing")
    assert "by hand" in world.now("old")["spec"]["trigger"]
    world.store.patch("nodes", None, "old", {"spec": {"taints": [STARTUP]}}, kind="merge")
    assert world.turns(lambda: world.phase("old") == "Passed")
    assert not world.tainted("old")
    world.close()


def test_taints_of_others_stay(tmp_path: Path) -> None:
    tolerated = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[tolerated, STARTUP])
    assert world.turns(lambda: world.phase("fresh") == "Passed")
    assert [one["key"] for one in world.store.get("nodes", None, "fresh")["spec"]["taints"]] == ["nvidia.com/gpu"]
    world.close()


def test_who_only_observes_says_what_it_would_do_and_touches_nothing(tmp_path: Path) -> None:
    world = old_world(tmp_path, acting=False)
    world.cluster.node("fresh", gpus=4)
    world.cluster.node("pending", gpus=4, taints=[STARTUP])
    world.turns(lambda: False, seconds=600)
    assert "taint node fresh" in condition(world.now("fresh"), "Tested")["message"]
    assert "create Job" in condition(world.now("pending"), "Tested")["message"]
    assert not world.tainted("fresh")
    assert world.jobs() == []
    assert {kind for _, kind, _ in world.api.writes} == {"nodeadmissions"}
    world.started(acting=True)
    assert world.turns(lambda: world.phase("fresh") == "Passed" and world.phase("pending") == "Passed")
    world.close()
