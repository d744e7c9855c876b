"""What the pods of an instance say of its process group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kube_objects as objects
from rankmuster.adapters.kube.groups.look import group_look
from rankmuster.adapters.kube.instances import instances
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.workloads import workload_view
from rankmuster.model.incident import GroupLook, GroupState
from rankmuster.model.kube import InstanceView, WorkloadKind

EARLIER, LATER = "2026-11-30T15:00:00Z", "2026-11-30T17:00:00Z"


def view(*raw: dict[str, Any]) -> InstanceView:
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2}}
    owner = workload_view(WorkloadKind.LEADER_WORKER_SET, objects.workload("LeaderWorkerSet", "lws-uid", spec))
    (found,) = instances([pod_view(one) for one in raw], [owner])
    return found


def look(*raw: dict[str, Any]) -> GroupLook:
    return group_look(view(*raw))


def leader(**more: Any) -> dict[str, Any]:
    return objects.group_pod(0, 0, "a", **more)


def worker(**more: Any) -> dict[str, Any]:
    return objects.group_pod(0, 1, "b", **more)


def test_pods_that_are_up_are_a_running_group_that_says_where_it_is() -> None:
    raw = worker(node="node-b")
    raw["spec"]["hostname"] = "inner"
    seen = look(leader(), raw)
    assert (seen.state, seen.incarnation, seen.at) == (GroupState.RUNNING, "a", 1_796_054_400.0)
    assert seen.hosts == ("llm-0", "inner")
    address = raw["status"]["podIP"]
    assert (seen.nodes["llm-0"], seen.nodes["inner"], seen.nodes["llm-0-1"], seen.nodes[address]) == (
        "node-a", "node-b", "node-b", "node-b",
    )  # fmt: skip
    assert seen.operation is None


@pytest.mark.parametrize(
    ("pods", "state"),
    [
        ([], GroupState.ENDED),
        ([leader(phase="Pending", ready=False, node=None)], GroupState.STARTING),
        ([leader()], GroupState.STARTING),  # a leader that has to be ready before its workers are made
        ([leader(ready=False), worker(ready=False)], GroupState.STARTING),
        ([worker()], GroupState.PARTLY),
        ([worker(phase="Pending", ready=False)], GroupState.STARTING),
        ([leader(), worker(deleting=True)], GroupState.PARTLY),
        ([leader(), worker(phase="Failed", ready=False)], GroupState.PARTLY),
        ([leader(), worker(ready=False, exit_code=139)], GroupState.PARTLY),
        ([leader(deleting=True), worker()], GroupState.ENDING),
        ([leader(deleting=True), worker(deleting=True)], GroupState.ENDING),
        ([leader(ready=False, exit_code=1), worker(ready=False, exit_code=1)], GroupState.ENDED),
        ([leader(phase="Failed"), worker(phase="Succeeded")], GroupState.ENDED),
    ],
)
def test_states(pods: list[dict[str, Any]], state: GroupState) -> None:
    assert look(*pods).state is state


def test_a_group_that_ended_by_itself_says_with_what_and_when() -> None:
    seen = look(leader(ready=False, exit_code=17), worker(ready=False, exit_code=1, created=LATER))
    assert (seen.ended_by_itself, seen.exit_status, seen.at) == (True, 17, 1_796_058_000.0)
    assert not look(leader(deleting=True), worker(deleting=True)).ended_by_itself
    assert not look().ended_by_itself


def test_an_engine_that_fails_its_probe_after_it_served_still_runs() -> None:
    hung = leader(ready=False)
    hung["status"]["conditions"][1]["lastTransitionTime"] = LATER
    assert look(hung, worker()).state is GroupState.RUNNING


def test_a_closed_gate_is_no_engine_that_is_down() -> None:
    gated = leader()
    gated["status"]["conditions"][0]["status"] = "False"
    assert look(gated, worker()).state is GroupState.RUNNING


def test_what_is_left_of_an_earlier_start_is_not_the_new_one() -> None:
    seen = look(leader(created=LATER), worker(deleting=True, created=EARLIER))
    assert (seen.state, seen.incarnation) == (GroupState.ENDING, None)
    assert "earlier start" in seen.note


def test_why_it_cannot_be_acted_on_is_in_the_note() -> None:
    found = replace(view(leader(), worker()), problem="an update is under way")
    assert "an update is under way" in group_look(found).note
