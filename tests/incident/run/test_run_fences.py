"""Fences: what limits count and what is over, whom a drift of the class convicts, and which are ours to lift."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from incident_world import (
    GPU_LOST,
    STALL,
    Faulty,
    Memory,
    World,
    WorldGroup,
    WorldNode,
    answers,
    fails,
    opening,
    verdict,
)
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.limits import Limits
from rankmuster.incident.tools import Tools
from rankmuster.model.fault import Boundary, FaultClass, Role, Subkind
from rankmuster.model.incident import Answer, Ending, Event, EventKind, Outcome, RetestEnding, StartWish, Step, UseKind
from run_incident import QUICK, Ran, Rig

ONE = Limits(fenced_at_once=1)


def rig_of(tmp_path: Path, **values: Any) -> Rig:
    world = World(Memory(), elsewhere=True, found=GPU_LOST)
    for name, value in values.items():
        setattr(world, name, value)
    return Rig(tmp_path, world, IncidentConfig(budget=QUICK, limits=ONE))


def next_one(rig: Rig, tools: Tools | None = None) -> Ran:
    """Another incident, of another node."""
    rig.world.found = replace(
        verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, Boundary.NODE, hosts=("n1",)), incarnation=None
    )
    return rig.run(tools, opening(incarnation=None, since=None))


def test_a_node_that_people_have_let_in_counts_no_longer(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, results={"n2": RetestEnding.FAIL})
    rig.run()
    del rig.world.state["fences"]["n2"]

    ran = next_one(rig)

    assert "n1" in rig.world.state["fenced"], ran.notes()


def test_a_node_that_is_out_counts_on(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, results={"n2": RetestEnding.FAIL})
    rig.run()

    ran = next_one(rig)

    assert "n1" not in rig.world.state["fenced"]
    assert "n1 is not fenced: 1 nodes are fenced now" in ran.notes()
    assert ran.incident.closed is Outcome.RECOVERED


def by_others(rig: Rig) -> None:
    rig.world.state["fences"]["n2"] = {"incident": None, "reason": "broken fan"}
    rig.run()


def failed(rig: Rig) -> None:
    rig.run(rig.world.tools(nodes=(Faulty(WorldNode(rig.world.store), fence=fails),)))


def never_approved(rig: Rig) -> None:
    usual = rig.config
    rig.config = replace(usual, budget={**QUICK, Step.APPROVE: 0.2}, approve=(Step.FENCE,))
    assert rig.run().incident.closed is Outcome.HELD
    rig.config = usual


@pytest.mark.parametrize("before", [by_others, failed, never_approved])
def test_a_fence_that_was_never_made_counts_no_longer(tmp_path: Path, before: Callable[[Rig], None]) -> None:
    rig = rig_of(tmp_path)
    before(rig)

    ran = next_one(rig)

    assert "n1" in rig.world.state["fenced"], ran.notes()


def test_what_cannot_be_looked_at_counts_on(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, results={"n2": RetestEnding.FAIL})
    rig.run()
    del rig.world.state["fences"]["n2"]

    next_one(rig, rig.world.tools(nodes=(WorldNode(rig.world.store, name="another place"),)))

    assert "n1" not in rig.world.state["fenced"]


def test_where_a_class_drifts_a_failed_test_quarantines_nobody(tmp_path: Path) -> None:
    drift = tmp_path / "drift.json"
    finding = {"scope": "systematic", "kind": "bandwidth", "statement": "driver 570 since Tuesday"}
    drift.write_text(json.dumps({"schema": "rankmuster.drift/1", "findings": [finding], "stop_rollout": True}))
    rig = rig_of(tmp_path, elsewhere=False, found=STALL, results={"n2": RetestEnding.FAIL})
    rig.config = IncidentConfig(budget=QUICK, drift=drift)

    ran = rig.run()

    assert rig.world.state["fenced"] == []
    assert "driver 570 since Tuesday" in ran.notes()
    assert ran.ended(Step.SETTLE).data["quarantined"] == []


def test_a_quarantine_that_limits_forbid_is_not_called_one(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, results={"n2": RetestEnding.FAIL})
    rig.run()
    rig.world.elsewhere, rig.world.results = False, {"n1": RetestEnding.FAIL}
    rig.world.found = replace(verdict(FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST, hosts=("n1",)), incarnation=None)

    ran = rig.run(opening=opening(incarnation=None, since=None))

    assert ran.ended(Step.SETTLE).data["quarantined"] == [], ran.notes()
    assert "n1 failed its re-test and was not fenced" in ran.notes()


def stuck(rig: Rig) -> Tools:
    nobody = Answer(ending=Ending.NODE, note="state D", data={"node": "n1", "pids": [7]})
    return rig.world.tools(
        group=Faulty(WorldGroup(rig.world.store, elsewhere=True), terminate=answers(nobody)),
    )


def test_the_node_of_a_process_that_cannot_be_killed_is_counted(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, found=verdict())

    ran = rig.run(stuck(rig))

    assert rig.world.state["fenced"] == ["n1"], ran.notes()
    with rig.journal() as journal:
        assert [one.subject for one in journal.uses(ran.incident.id) if one.kind is UseKind.FENCE] == ["n1"]


def test_and_limits_hold_for_it_too(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, results={"n2": RetestEnding.FAIL})
    rig.run()
    rig.world.found = replace(verdict(), incarnation=None)

    ran = rig.run(stuck(rig), opening(incarnation=None, since=None))

    assert rig.world.state["fenced"] == ["n2"]
    assert ran.ending(Step.FENCE) is Ending.REFUSED
    assert "n1 is not fenced: 1 nodes are fenced now" in ran.notes()


def test_a_fence_is_lifted_where_it_is_ours_and_left_where_others_hold_it(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    other = Memory()
    other.state["fences"]["n2"] = {"incident": None, "reason": "broken fan"}
    places = (WorldNode(rig.world.store), WorldNode(other, name="other"))

    ran = rig.run(rig.world.tools(nodes=places))

    assert rig.world.state["lifted"] == ["n2"], ran.notes()
    assert other.state["fences"]["n2"]["reason"] == "broken fan"
    assert ran.ending(Step.SETTLE) is Ending.DONE
    with rig.journal() as journal:
        assert all(one.ended_at is not None for one in journal.uses(ran.incident.id))


def test_a_resumed_rebuild_is_counted_and_started_steadily(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, found=verdict())
    wishes: list[str | None] = []

    def start(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        wishes.append(arguments[2].suspect)
        return call(*arguments, **named)

    def tools(*, broken: bool) -> Tools:
        group = WorldGroup(rig.world.store, elsewhere=True, broken=broken)
        return rig.world.tools(group=Faulty(group, start=start))

    first = rig.run(tools(broken=True))
    assert first.incident.closed is Outcome.FAILED, first.notes()
    with rig.journal() as journal:
        journal.tell(first.incident.id, Event(kind=EventKind.REOPENED, at=first.events[-1].at, by="kim"))
        again = rig.runner(journal, tools(broken=False)).run(first.incident.id)
        assert again.closed is Outcome.RECOVERED
        uses = [one for one in journal.uses(first.incident.id) if one.kind is UseKind.REBUILD]
    assert len(uses) == 2
    assert wishes == ["missing_enter", None]


def test_of_several_that_failed_as_many_are_fenced_as_may_be(tmp_path: Path) -> None:
    both = verdict(FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST, hosts=("n1", "n2"), role=Role.SUSPECT)
    results = {"n1": RetestEnding.FAIL, "n2": RetestEnding.FAIL}
    rig = rig_of(tmp_path, elsewhere=False, found=both, results=results)

    ran = rig.run()

    assert rig.world.state["fenced"] == ["n1"], ran.notes()
    assert "n2 failed its re-test and was not fenced" in ran.notes()


def test_nothing_is_tested_beside_a_group_that_somebody_has_started_at_once(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, elsewhere=False, found=STALL)
    group = WorldGroup(rig.world.store)

    def recreated(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        ended = call(*arguments, **named)
        group.start("inc-1", "a controller's", StartWish(), arguments[2])
        return ended

    ran = rig.run(rig.world.tools(group=Faulty(group, terminate=recreated)))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert ran.ending(Step.SHORT_RETEST) is Ending.SKIPPED
    assert "short_retest:n2" not in rig.world.state["order"]
    assert rig.world.state["starts"] == ["inc-2"]
