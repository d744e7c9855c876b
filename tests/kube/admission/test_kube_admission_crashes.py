"""The controller ends at any point, and another one goes on: nothing is done twice, and the end is the same."""

from __future__ import annotations

import random
from pathlib import Path

from kube_admission_world import STARTUP, Crash, World, old_world

from rankmuster.adapters.kube.api import Forbidden, KubeError


def run_with_crashes(world: World, place: int, when: str) -> bool:
    """Ends the controller before or after its write number `place`; whether there was one."""
    left = [place]

    def crash(*_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    setattr(world.api, when, crash)
    crashed = False
    end = world.clock() + 7_200
    while world.phase("fresh") != "Passed" or world.tainted("fresh"):
        assert world.clock() < end, f"it never came to its end after a crash {when} write {place}"
        try:
            world.cluster.settle()
            world.work.turn(1e9)
        except Crash:
            crashed = True
            world.started()
        world.cluster.run(15)
    return crashed


def test_after_a_crash_at_any_write_the_same_is_reached_by_one_job(tmp_path: Path) -> None:
    for when in ("before", "after"):
        place = 0
        while True:
            place += 1
            folder = tmp_path / f"{when}-{place}"
            folder.mkdir()
            world = old_world(folder)
            world.cluster.node("fresh", gpus=4)
            crashed = run_with_crashes(world, place, when)
            created = [name for verb, kind, name in world.api.writes if (verb, kind) == ("create", "jobs")]
            assert len(created) == 1, f"a crash {when} write {place}: {created}"
            assert len(world.admissions("fresh")) == 1
            assert world.history is not None
            assert len(world.history.admissions(node="fresh")) == 1
            assert len(world.history.runs(node="fresh")) == 1
            assert world.now("fresh")["status"]["attempts"] == 1
            world.close()
            if not crashed:
                break
        assert place > 5, "the writes of a whole admission were crashed at"


def test_a_crash_while_nodes_are_trusted_taints_none_of_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(5):
        world.cluster.node(f"n{number}", gpus=4)
    left = [4]

    def crash(*_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    world.api.after = crash
    try:
        world.work.turn(1e9)
    except Crash:
        world.cluster.run(30)
        world.started()
    assert world.turns(lambda: all(world.phase(f"n{number}") == "Provisional" for number in range(5)))
    assert not any(world.tainted(f"n{number}") for number in range(5))
    world.close()


def test_a_server_that_fails_half_of_the_calls_delays_and_changes_nothing_else(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    luck = random.Random(7)

    def fails(verb: str, kind: str, name: str) -> None:
        if luck.random() < 0.25:
            raise KubeError(f"{verb} {kind} {name}: 500", status=500, maybe=True)

    world.api.before = world.api.after = fails
    world.cluster.node("fresh", gpus=4)
    assert world.turns(lambda: world.phase("fresh") == "Passed" and not world.tainted("fresh"))
    assert sum((verb, kind) == ("create", "jobs") for verb, kind, _ in world.api.writes) == 1
    world.close()


def test_a_role_that_lacks_a_verb_is_said_on_the_node_admission(tmp_path: Path) -> None:
    world = old_world(tmp_path)

    def forbidden(verb: str, kind: str, name: str) -> None:
        if kind == "jobs":
            raise Forbidden(f"jobs.batch is forbidden: cannot {verb} resource", status=403)

    world.api.before = forbidden
    world.cluster.node("fresh", gpus=4)
    world.turns(lambda: False, seconds=600)
    conditions = world.now("fresh")["status"]["conditions"]
    (tested,) = [one for one in conditions if one["type"] == "Tested"]
    assert tested["reason"] == "NotDone"
    assert "cannot create" in tested["message"]
    assert world.tainted("fresh")
    world.close()


def test_an_admission_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    world = old_world(tmp_path)
    world.cluster.node("fresh", gpus=4, taints=[STARTUP])
    world.turns(lambda: world.admissions("fresh"))
    raw = world.admissions("fresh")[0]
    writes = len(world.api.writes)
    world.work.admission_changed(
        {
            **raw,
            "spec": {**raw["spec"], "mode": "of tomorrow"},
            "metadata": {**raw["metadata"], "resourceVersion": "999999"},
        }
    )
    for _ in range(3):
        world.work.turn(1e9)
    assert len(world.api.writes) == writes
    assert any("left alone" in line for line in world.log)
    world.close()
