"""Which policy governs which instance, and what a missed watch leaves behind."""

from __future__ import annotations

from dataclasses import replace

from kube_parts import pod, policy, workload
from rankmuster.adapters.kube.groups.look import group_look
from rankmuster.incident.steps.group import changed
from rankmuster.kube.controller.fleet import Fleet
from rankmuster.kube.controller.matching import fits, govern
from rankmuster.kube.crd.base import Selector
from rankmuster.model.fault import Progress
from rankmuster.model.incident import OpenedBy, Opening
from rankmuster.model.kube import WorkloadKind


def fleet_of(*parts: object) -> Fleet:
    fleet = Fleet()
    for one in parts:
        if type(one).__name__ == "PodView":
            fleet.pod(one)  # type: ignore[arg-type]
        elif type(one).__name__ == "WorkloadView":
            fleet.workload(one)  # type: ignore[arg-type]
        else:
            fleet.policy(one)  # type: ignore[arg-type]
    fleet.settle()
    return fleet


def test_an_instance_is_its_pods_under_its_policy() -> None:
    fleet = fleet_of(pod(1), pod(0), workload(), policy())
    (known,) = fleet.instances()
    assert known.name == "prod.llm.0"
    assert known.view.anchor is not None
    assert known.view.anchor.name == "llm-0"
    assert known.nodes["llm-0-1"] == "node-1"
    assert known.nodes["10.0.0.1"] == "node-0"
    assert known.view.problem == ""


def test_another_start_is_another_one_whatever_clocks_say() -> None:
    (known,) = fleet_of(pod(1), pod(0, uid="uid-new"), workload(), policy()).instances()
    look = group_look(known.view)
    assert look.at == 50.0  # by a clock that is behind
    opening = Opening(
        instance="prod.llm.0", incarnation="uid-old", by=OpenedBy.STOPPED, progress=Progress.STOPPED, at=99.0
    )
    assert "uid-new runs now" in (changed(opening, look) or "")


def test_two_policies_of_one_workload_govern_nothing() -> None:
    fleet = fleet_of(pod(), pod(1), workload(), policy("a"), policy("b"))
    assert fleet.instances() == ()
    ((key, names),) = fleet.contested("prod").items()
    assert (key.name, names) == ("llm", ("a", "b"))
    fleet.policy(policy("b"), gone=True)
    fleet.settle()
    assert [one.policy.name for one in fleet.instances()] == ["a"]


def test_a_policy_for_one_workload_that_matches_two_governs_neither() -> None:
    fleet = fleet_of(pod(), pod(1), workload(), workload("other"), policy("all", app=None))
    assert fleet.instances() == ()
    assert {one.name for one in fleet.ambiguous(("prod", "all"))} == {"llm", "other"}
    fleet.policy(policy("all", app=None, several=True))
    fleet.settle()
    assert {one.name for one in fleet.instances()} == {"prod.llm.0", "prod.other.0"}


def test_a_policy_of_another_kind_or_namespace_does_not_match() -> None:
    jobs = policy(kinds=["JobSet"])
    elsewhere = replace(policy(), namespace="test")
    assert fleet_of(pod(), workload(), jobs).instances() == ()
    assert fleet_of(pod(), workload(), elsewhere).instances() == ()


def test_what_a_watch_missed_is_gone_after_a_whole_list() -> None:
    fleet = fleet_of(pod(), pod(1), workload(), policy())
    before = fleet.listing()
    late = pod(1, uid="new", resource_version="9")
    fleet.pod(late)  # told by the watch while the list was read
    assert fleet.only_pods([pod()], before) == 1
    fleet.settle()
    (known,) = fleet.instances()
    assert {one.uid for one in known.view.pods} == {"uid-llm-0", "new"}


def test_a_list_that_is_older_than_the_watch_brings_nothing_back() -> None:
    fleet = fleet_of(pod(), pod(1), workload(), policy())
    before = fleet.listing()
    fleet.pod(pod(1), gone=True)
    fleet.pod(replace(pod(), ready=False, resource_version="7"))
    fleet.only_pods([pod(), pod(1)], before)
    fleet.settle()
    (known,) = fleet.instances()
    assert [(one.uid, one.ready) for one in known.view.pods] == [("uid-llm-0", False)]


def test_policies_are_told_when_their_instances_change() -> None:
    told: list[tuple[str, str]] = []
    fleet = Fleet()
    fleet.tell(told.append)
    for one in (pod(), pod(1)):
        fleet.pod(one)
    fleet.workload(workload())
    fleet.policy(policy())
    fleet.settle()
    told.clear()
    fleet.settle()
    assert told == []
    fleet.pod(pod(1), gone=True)
    fleet.settle()
    assert told == [("prod", "all")]


def test_a_workload_that_is_gone_takes_its_instances_along() -> None:
    fleet = fleet_of(pod(), pod(1), workload(), policy())
    fleet.workload(replace(workload(), uid="another"), gone=True)  # of one that had the name before
    fleet.settle()
    assert len(fleet.instances()) == 1
    assert fleet.only_workloads(WorkloadKind.LEADER_WORKER_SET.value, []) == 1
    fleet.settle()
    assert fleet.instances() == ()
    assert fleet.counts()["pods"] == 2


def test_selectors_select_as_kubernetes_does() -> None:
    def selects(raw: dict[str, object], **labels: str) -> bool:
        return fits(Selector.model_validate(raw), labels)

    def line(operator: str, *values: str) -> dict[str, object]:
        return {"matchExpressions": [{"key": "tier", "operator": operator, "values": list(values)}]}

    assert not selects({}, app="x")
    assert selects({"matchLabels": {"app": "x"}}, app="x", tier="y")
    assert not selects({"matchLabels": {"app": "x"}}, app="y")
    assert selects(line("In", "a", "b"), tier="b")
    assert not selects(line("In", "a"))
    assert selects(line("NotIn", "a"))
    assert not selects(line("NotIn", "a"), tier="a")
    assert selects(line("Exists"), tier="")
    assert selects(line("DoesNotExist"), app="x")


def test_a_policy_that_is_being_deleted_governs_only_while_it_is_held() -> None:
    going = replace(policy(), deleting_since=5.0)
    labels = {one.key: {"app": "llm"} for one in fleet_of(pod(), workload(), policy()).instances()}
    assert not govern([going], labels).by
    assert govern([replace(going, held=True)], labels).by
