"""The controller over a simulated cluster: from a stop to a new incarnation, and everything that must not happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_rig import INCIDENTS, LWS, POLICIES, Rig, group, policy, rig
from kube_sim.faults import Fault, Harm
from rankmuster.kube.rbac import Part, rules
from rankmuster.model.kube import SCHEMA_ANNOTATION

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

SHORT = {"steps": {"evidence": 3, "diagnose": 5}}
"""No sidecar and no agent answers here: what evidence there is comes within a second."""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as one:
        yield one


class Order:
    """In which order gates were closed and pods told to end, of the pods that were there at first."""

    def __init__(self, made: Rig) -> None:
        self.events: list[str] = []
        self.uids = {one["metadata"]["uid"] for one in made.pods().values()}
        self.deleted: set[str] = set()
        made.store.subscribe("pods", self._told)

    def _told(self, type_: str, one: dict[str, Any]) -> None:
        uid = one["metadata"]["uid"]
        conditions = one.get("status", {}).get("conditions", ())
        if any(each["type"].endswith("/serving") and each["status"] == "False" for each in conditions):
            self._once("closed")
        if one["metadata"].get("deletionTimestamp") or type_ == "DELETED":
            self.deleted.add(uid)
            self._once("deleted" if uid in self.uids else "deleted another")

    def _once(self, what: str) -> None:
        if what not in self.events:
            self.events.append(what)


def closed(made: Rig, seconds: float = 60.0) -> dict[str, Any]:
    def look() -> Any:
        found = made.incident()
        return found if found["status"]["phase"] == "Closed" else None

    found: dict[str, Any] = made.until(look, seconds)
    return found


def test_a_stopped_group_is_rebuilt_once_behind_a_closed_gate(made: Rig) -> None:
    slow = group()
    # pods that take longer to go than their sidecar's last word is good for: it is silent when the new ones are made
    metadata = slow["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
    metadata["annotations"] = {"sim.rankmuster.dev/stop": "5"}
    made.store.create(slow)
    wanted = {"enable": ["traffic", "group"], "undecided": "rebuild", "traffic": {"readinessGate": True}}
    made.store.create(policy(**wanted, deadlines=SHORT))
    # an API server that is having a bad day: every kind of call is hit, some after they were done
    faults = made.server.faults
    for harm in (Harm.CUT_AFTER, Harm.HALF, Harm.CUT_BEFORE):
        faults.switch_on(Fault(harm, verb="patch", resource="pods/status"))
    faults.switch_on(Fault(Harm.REFUSE, verb="patch", status=409, times=3))
    faults.switch_on(Fault(Harm.REFUSE, verb="list", status=429, retry_after=1, times=2))
    faults.switch_on(Fault(Harm.PLAIN, verb="get", status=503, times=3))
    faults.switch_on(Fault(Harm.CUT_AFTER, verb="delete", resource="pods"))
    faults.switch_on(Fault(Harm.GARBAGE, verb="create", resource="communicationincidents"))
    with made.controller():
        made.until(lambda: made.ready(2))
        order = Order(made)
        made.sidecars.stop(*order.uids)
        incident = closed(made)
        made.until(lambda: made.ready(2))
        assert incident["status"]["outcome"] == "recovered", incident["status"]
        assert order.events == ["closed", "deleted"]
        told = {(one["reason"], one["involvedObject"]["name"]) for one in made.store.list("events", "prod")}
        assert {("GroupEnded", "llm"), ("GroupEnded", "llm-0")} <= told
        assert any(name == "llm-0-1" for reason, name in told if reason.startswith("Traffic"))
        assert order.deleted == order.uids
        assert made.condition(incident, "Recovered") == ("True", "Recovered")
        assert incident["spec"]["instance"] == "prod.llm.0"
        assert {one["name"] for one in incident["spec"]["pods"]} == {"llm-0", "llm-0-1"}
        assert len(made.store.list(INCIDENTS, "prod")) == 1
        accepted = ("True", "Accepted")
        assert made.until(lambda: made.condition(made.store.get(POLICIES, "prod", "llm"), "Accepted") == accepted)
    used = made.server.recorder.rights(agent="rankmuster") | made.server.recorder.rights(agent="kopf")
    assert used - rules([Part.OBSERVE, Part.TRAFFIC, Part.GROUP]) == set()


def test_what_only_observes_says_so_and_changes_nothing(made: Rig) -> None:
    made.store.create(group())
    made.store.create(policy(traffic={"readinessGate": True}, undecided="rebuild", deadlines=SHORT))
    made.store.create(policy("wrong", selector={}))
    with made.controller(enable=()):
        made.until(lambda: len(made.pods()) == 2)
        uids = {one["metadata"]["uid"] for one in made.pods().values()}
        made.sidecars.stop(*uids)
        incident = closed(made)
        assert incident["status"]["outcome"] == "observed"
        assert any("DELETE" in row["note"] for row in incident["status"]["timeline"])
        found = made.until(
            lambda: made.store.get(POLICIES, "prod", "llm").get("status") and made.store.get(POLICIES, "prod", "llm")
        )
        assert made.condition(found, "Acting") == ("False", "Observing")
        assert made.condition(found, "Gated") == ("False", "NobodyOpens")
        wrong = made.until(lambda: made.store.get(POLICIES, "prod", "wrong")["status"])
        assert "empty selector" in wrong["conditions"][0]["message"]
        assert {one["metadata"]["uid"] for one in made.pods().values()} == uids
    recorder = made.server.recorder
    used = recorder.rights(agent="rankmuster") | recorder.rights(agent="kopf")
    assert used - rules([Part.OBSERVE]) == set()
    written = {(resource, verb) for _, resource, verb in used if verb not in ("get", "list", "watch")}
    assert written == {
        ("communicationincidents", "create"),
        ("communicationincidents/status", "patch"),
        ("communicationpolicies/status", "patch"),
    }


def test_a_dry_run_writes_nothing_and_says_what_would_be_done(made: Rig) -> None:
    made.store.create(group())
    wanted = {"enable": ["traffic", "group"], "undecided": "rebuild", "traffic": {"readinessGate": True}}
    made.store.create(policy(**wanted, deadlines=SHORT))
    with made.controller(dry_run=True, admits=True):
        made.until(lambda: len(made.pods()) == 2)
        made.sidecars.stop(*(one["metadata"]["uid"] for one in made.pods().values()))
        made.until(lambda: any("observed" in one for one in made.said))
    assert any("would: DELETE" in one for one in made.said)
    assert any("would: PATCH" in one for one in made.said)
    recorder = made.server.recorder
    used = recorder.rights(agent="rankmuster") | recorder.rights(agent="kopf")
    assert {verb for _, _, verb in used} <= {"get", "list", "watch"}


def test_people_approve_in_the_resource_and_a_deleted_policy_lets_go(made: Rig) -> None:
    made.store.create(group())
    wanted = {"enable": ["traffic", "group"], "traffic": {"readinessGate": True}, "deadlines": SHORT}
    made.store.create(policy(**wanted))
    with made.controller():
        made.until(lambda: made.ready(2))
        first = Order(made)
        made.sidecars.stop(*first.uids)
        waiting = made.until(
            lambda: made.incident() if made.condition(made.incident(), "WaitsForApproval")[0] == "True" else None
        )
        assert made.store.get(POLICIES, "prod", "llm")["metadata"]["finalizers"] == ["rankmuster.dev/incident"]
        name = waiting["metadata"]["name"]
        word = {"spec": {"approve": {"boundary": "process_group", "by": "ada", "reason": "go on"}}}
        made.store.patch(INCIDENTS, "prod", name, word, kind="merge", manager="kubectl")
        assert closed(made)["status"]["outcome"] == "recovered"
        made.until(lambda: not made.store.get(POLICIES, "prod", "llm")["metadata"].get("finalizers"))
        made.store.delete(INCIDENTS, "prod", name)

        made.until(lambda: made.ready(2))
        second = Order(made)
        made.sidecars.stop(*second.uids)
        made.until(lambda: made.condition(made.incident(), "WaitsForApproval")[0] == "True")
        made.until(lambda: made.store.get(POLICIES, "prod", "llm")["metadata"].get("finalizers"))
        made.store.delete(POLICIES, "prod", "llm")
        assert closed(made)["status"]["outcome"] == "aborted"
        made.until(lambda: not made.store.list(POLICIES, "prod"))
        assert second.deleted == set()


def test_an_instance_whose_pods_do_not_say_who_they_are_is_let_alone(made: Rig) -> None:
    made.store.create(group())
    made.store.create(policy(enable=["traffic", "group"], undecided="rebuild", deadlines=SHORT))
    with made.controller():
        made.until(lambda: len(made.pods()) == 2)
        pods = made.pods()
        key = "leaderworkerset.sigs.k8s.io/group-key"
        change = {"metadata": {"labels": {key: "another"}}}
        made.store.patch("pods", "prod", "llm-0-1", change, kind="merge", manager="somebody")
        found = made.until(
            lambda: [
                one
                for one in made.store.get(POLICIES, "prod", "llm")["status"]["instances"]
                if "llm-0-1" in one["problem"] or "key" in one["problem"]
            ]
        )
        assert found
        made.sidecars.stop(*(one["metadata"]["uid"] for one in pods.values()))
        time.sleep(3.0)  # three polls
        assert made.store.list(INCIDENTS, "prod") == []
        assert made.condition(made.store.get(POLICIES, "prod", "llm"), "Identified") == ("False", "NotEnough")
        assert made.store.get(LWS, "prod", "llm")


def test_what_people_write_into_a_policy_meanwhile_counts(made: Rig) -> None:
    made.store.create(group())
    wanted = {"enable": ["traffic", "group"], "traffic": {"readinessGate": True}, "deadlines": SHORT}
    made.store.create(policy(**wanted))
    with made.controller():
        made.until(lambda: made.ready(2))
        order = Order(made)
        made.sidecars.stop(*order.uids)
        waiting = made.until(
            lambda: made.incident() if made.condition(made.incident(), "WaitsForApproval")[0] == "True" else None
        )
        made.store.patch(POLICIES, "prod", "llm", {"spec": {"paused": True}}, kind="merge", manager="kubectl")
        word = {"spec": {"approve": {"boundary": "process_group", "by": "ada", "reason": "go on"}}}
        made.store.patch(INCIDENTS, "prod", waiting["metadata"]["name"], word, kind="merge", manager="kubectl")
        incident = closed(made)
        assert any("paused by now" in row["note"] for row in incident["status"]["timeline"])
        assert order.deleted == set()


def test_definitions_of_a_newer_version_are_let_alone_and_said(made: Rig) -> None:
    made.store.create(group())
    made.store.create(policy(enable=["traffic", "group"], undecided="rebuild", traffic={"readinessGate": True}))
    newer = {"metadata": {"annotations": {SCHEMA_ANNOTATION: "2"}}}
    made.store.patch(DEFINITIONS, None, POLICIES, newer, kind="merge", manager="kubectl")
    with made.controller():
        found = made.until(lambda: made.store.get(POLICIES, "prod", "llm")["status"] and made.pods())
        made.sidecars.stop(*(one["metadata"]["uid"] for one in found.values()))
        time.sleep(3.0)  # three polls
        assert made.condition(made.store.get(POLICIES, "prod", "llm"), "Accepted") == ("False", "NewerSchema")
        assert made.store.list(INCIDENTS, "prod") == []
        assert any("has schema 2" in line for line in made.said)
