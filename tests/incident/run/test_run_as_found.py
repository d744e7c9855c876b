"""Traffic as it was before the incident: what others had stopped stays stopped, a weight of theirs is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from incident_world import WorldTraffic, opening, verdict
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.seen import Seen
from rankmuster.model.fault import Boundary, FaultClass, Progress, Subkind
from rankmuster.model.incident import Ending, OpenedBy, Outcome, Step
from run_incident import QUICK, Rig

SLOW = verdict(
    FaultClass.PERFORMANCE_DEGRADATION, Subkind.PERSISTENT, Boundary.INSTANCE, hosts=("n2",), progress=Progress.SLOW
)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.mark.parametrize("state", ["stopped", "cut", "absent"])
def test_what_an_operator_had_stopped_is_not_given_back(rig: Rig, state: str) -> None:
    rig.world.state["gateways"]["front"].update(state=state, running=0)

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert "front:restore" not in rig.world.state["order"]
    assert "front:cut" not in rig.world.state["order"]
    assert f"front was {state}: others did that" in ran.notes()
    assert ran.ending(Step.RESTORE) is Ending.SKIPPED
    assert "traffic stays stopped" in ran.notes()


def test_what_still_runs_at_a_gateway_that_others_had_stopped_is_cut(rig: Rig) -> None:
    rig.world.state["gateways"]["front"]["state"] = "stopped"

    rig.run()

    assert rig.world.state["gateways"]["front"]["state"] == "cut"
    assert rig.world.state["hit"] == 3


def test_of_two_gateways_only_ours_is_given_back_and_that_is_a_good_end(rig: Rig) -> None:
    store = rig.world.store
    store.state["gateways"]["back"] = {"state": "stopped", "percent": 100.0, "running": 0}

    ran = rig.run(rig.world.tools(traffic=(WorldTraffic(store), WorldTraffic(store, "back"))))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert store.state["gateways"]["front"]["state"] == "ready"
    assert store.state["gateways"]["back"]["state"] == "stopped"
    assert ran.ending(Step.RESTORE) is Ending.DONE


def test_the_weight_that_an_operator_had_given_is_given_back(rig: Rig) -> None:
    rig.world.state["gateways"]["front"]["percent"] = 50.0

    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["gateways"]["front"] == {"state": "ready", "percent": 50.0, "running": 0}


def test_a_slow_one_never_gets_more_by_being_given_less(rig: Rig) -> None:
    rig.world.found = SLOW
    rig.world.state["gateways"]["front"]["percent"] = 20.0
    rig.config = IncidentConfig(budget={**QUICK, Step.RECOVER: 0.5})

    ran = rig.run(opening=opening(OpenedBy.SLOW, Progress.SLOW), seen=lambda: Seen(Progress.SLOW, "inc-1", time.time()))

    assert rig.world.state["gateways"]["front"]["percent"] == 20.0, ran.notes()


def test_a_slow_one_whose_traffic_was_stopped_gets_some_of_it_again(rig: Rig) -> None:
    rig.world.found = SLOW
    rig.config = IncidentConfig(budget={**QUICK, Step.RECOVER: 0.5})

    ran = rig.run(seen=lambda: Seen(Progress.SLOW, "inc-1", time.time()))

    assert rig.world.state["gateways"]["front"] == {"state": "ready", "percent": 30.0, "running": 3}, ran.notes()
    assert rig.world.state["terminated"] == []
    assert "its weight at the gateway stays lowered" in ran.notes()


def test_what_an_earlier_incident_left_stopped_is_given_back_by_the_next(rig: Rig) -> None:
    rig.world.found = verdict(FaultClass.INCONCLUSIVE, None, Boundary.NONE, confidence=None)
    rig.config = IncidentConfig(budget={**QUICK, Step.APPROVE: 0.2})
    assert rig.run().incident.closed is Outcome.HELD
    assert rig.world.state["gateways"]["front"]["state"] == "stopped"

    rig.world.found = verdict()
    ran = rig.run()

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["gateways"]["front"]["state"] == "ready"


def test_what_others_had_stopped_before_an_earlier_incident_is_still_theirs(rig: Rig) -> None:
    rig.world.state["gateways"]["front"].update(state="stopped", running=0)
    rig.run()

    ran = rig.run(opening=opening(incarnation="inc-2"))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert "front:restore" not in rig.world.state["order"]


def test_nothing_of_others_is_asked_for_where_traffic_is_only_observed(rig: Rig) -> None:
    rig.world.state["gateways"]["front"]["state"] = "stopped"

    ran = rig.run(rig.world.tools(frozenset({"group"})))

    assert "others did that" not in ran.notes()
