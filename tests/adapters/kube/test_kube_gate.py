"""Pods are out of their Service before anything is killed, by a gate that is bound to them, and are let in again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kube_group_world import NAMESPACE, World, world
from kube_sim.faults import Fault, Harm
from kube_sim.objects import is_true
from kube_workloads import leader_worker_set, pod_template, workload
from rankmuster.adapters.kube.api import PODS, Conflict, KubeError, NotThere
from rankmuster.adapters.kube.events import Events
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.readiness_gate import ReadinessGate, open_gate
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, TrafficState
from rankmuster.model.kube import GATE, InstanceView, WorkloadKind

LWS = WorkloadKind.LEADER_WORKER_SET
GATED: dict[str, Any] = {"readinessGates": [{"conditionType": GATE}]}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "front", "namespace": NAMESPACE},
    "spec": {"selector": {"app": "engine"}, "ports": [{"port": 8000}]},
}


def gated(**service: Any) -> tuple[dict[str, Any], ...]:
    template = pod_template(labels={"app": "engine"}, **GATED)
    front = {**SERVICE, "spec": {**SERVICE["spec"], **service}}  # type: ignore[dict-item]
    return leader_worker_set(template=template), front


def gate_of(place: World, **more: Any) -> ReadinessGate:
    return ReadinessGate(
        place.client, "gate", place.find(LWS, "0"), pause=place.pause, wall=place.cluster.clock, **more
    )


def ready(place: World) -> list[bool]:
    return [is_true(one, "Ready") for one in place.cluster.store.list("pods")]


def endpoints(place: World) -> list[bool]:
    place.cluster.settle()
    slices = place.cluster.store.list("endpointslices.discovery.k8s.io", NAMESPACE)
    return [
        e["conditions"]["ready"]
        for one in slices
        if one["metadata"]["name"].startswith("front")
        for e in one["endpoints"]
    ]


@pytest.fixture
def place() -> Iterator[World]:
    with world(*gated()) as made:
        assert made.cluster.run_until(lambda: len(made.uids()) == 2)
        made.cluster.run(10)
        yield made


def test_new_pods_wait_for_their_gate_and_serve_when_it_opens(place: World) -> None:
    gate = gate_of(place)
    assert ready(place) == [False, False]
    assert gate.look(place.after(5)).state is TrafficState.STOPPED
    answer = gate.restore(place.after(30))
    assert answer.ending is Ending.DONE, answer
    assert answer.note == "2 of 2 gates were opened; all 2 pods are Ready"
    assert gate.look(place.after(5)).state is TrafficState.READY
    assert endpoints(place) == [True, True]
    again = gate.restore(place.after(30))
    assert (again.ending, again.note) == (Ending.DONE, "0 of 2 gates were opened; all 2 pods are Ready")


def test_requests_stop_and_containers_go_on(place: World) -> None:
    gate = gate_of(place)
    gate.restore(place.after(30))
    before = place.uids()
    answer = gate.stop_new("a rank was killed", place.after(30))
    assert answer.ending is Ending.DONE, answer
    assert ready(place) == [False, False]
    assert endpoints(place) == [False, False]
    assert place.uids() == before
    pod = place.cluster.store.list("pods")[0]
    condition = next(one for one in pod["status"]["conditions"] if one["type"] == GATE)
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "StoppedByIncident",
        "a rank was killed",
    )
    assert all(one["ready"] for one in pod["status"]["containerStatuses"])
    assert gate.look(place.after(5)).state is TrafficState.STOPPED
    again = gate.stop_new("a rank was killed", place.after(30))
    assert again.ending is Ending.DONE
    assert again.note.startswith("0 of 2 gates")
    cut = gate.cut("a rank was killed", place.after(30))
    assert cut.ending is Ending.REFUSED
    assert "readiness cannot end what runs" in cut.note
    assert gate.set_weight(30, place.after(5)).ending is Ending.REFUSED


def test_a_gate_that_nobody_has_opened_is_left_as_it_is(place: World) -> None:
    before = place.cluster.store.list("pods")
    answer = gate_of(place).stop_new("x", place.after(30))
    assert answer.ending is Ending.DONE, answer
    assert place.cluster.store.list("pods") == before


def test_pods_without_a_gate_are_not_half_stopped() -> None:
    with world(leader_worker_set(template=pod_template())) as place:
        place.settle(2)
        gate = gate_of(place)
        assert gate.look(place.after(5)).state is TrafficState.READY
        answer = gate.stop_new("x", place.after(30))
        assert answer.ending is Ending.REFUSED
        assert "llm-0, llm-0-1" in answer.note
        assert "rankmuster kube inject --gate" in answer.note
        assert not place.server.recorder.asked(verb="patch")
        assert gate.restore(place.after(30)).ending is Ending.DONE


def test_pods_that_are_made_anew_meanwhile_are_closed_too(place: World) -> None:
    gate = gate_of(place)
    gate.restore(place.after(30))

    victim = place.cluster.store.get("pods", NAMESPACE, "llm-0")["spec"]["nodeName"]

    def recreate() -> None:
        place.cluster.revive_node(victim)
        place.cluster.store.delete("pods", NAMESPACE, "llm-0", propagation="Foreground")
        place.cluster.run(20)
        for pod in place.cluster.store.list("pods"):  # the controller opens what nobody has spoken of
            open_gate(place.client, pod_view(pod), Deadline.after(10), wall=place.cluster.clock)
        place.cluster.run(5)
        assert ready(place) == [True, True]

    place.before_pause.append(recreate)
    place.cluster.fail_node(victim)  # so that its pod does not follow at once
    answer = gate.stop_new("x", place.after(200))
    assert answer.ending is Ending.DONE, answer
    assert not any(ready(place))


def test_a_kubelet_that_does_not_follow_is_no_success(place: World) -> None:
    gate = gate_of(place)
    gate.restore(place.after(30))
    victim = place.cluster.store.get("pods", NAMESPACE, "llm-0")["spec"]["nodeName"]
    place.cluster.fail_node(victim)
    answer = gate.stop_new("x", place.after(10))
    assert answer.ending is Ending.TIMED_OUT
    assert "requests may still come" in answer.note
    assert "llm-0" in answer.note
    look = gate.look(place.after(5))
    assert look.state is TrafficState.MIXED
    assert "does the kubelet follow" in look.note
    place.cluster.run(120)  # the node controller has marked them
    assert gate.look(place.after(5)).state in (TrafficState.STOPPED, TrafficState.ABSENT)


def test_a_service_that_heeds_no_readiness_is_named() -> None:
    with world(*gated(publishNotReadyAddresses=True)) as place:
        assert place.cluster.run_until(lambda: len(place.uids()) == 2)
        place.cluster.run(10)
        look = gate_of(place).look(place.after(5))
        assert look.state is TrafficState.MIXED
        assert "Service front publishes addresses that are not ready" in look.note
        assert gate_of(place, slices=False).look(place.after(5)).state is TrafficState.STOPPED
        place.server.faults.switch_on(Fault(Harm.REFUSE, "list", "endpointslices", status=403, times=None))
        gate = gate_of(place)
        assert "may not be read" in gate.look(place.after(5)).note
        assert gate.look(place.after(5)).state is TrafficState.STOPPED
        assert len([one for one in place.server.recorder.asked(resource="endpointslices") if one.status == 403]) == 1


@pytest.mark.parametrize(
    ("fault", "ending", "words"),
    [
        (Fault(Harm.REFUSE, "patch", "pods/status", status=409, times=3), Ending.DONE, "2 of 2"),
        (Fault(Harm.REFUSE, "patch", "pods/status", status=409, times=None), Ending.FAILED, "changed it 10 times"),
        (Fault(Harm.REFUSE, "patch", "pods/status", status=403, times=None), Ending.REFUSED, "the role lacks it"),
        (Fault(Harm.REFUSE, "patch", "pods/status", status=422, times=None), Ending.REFUSED, "422"),
        (Fault(Harm.REFUSE, "patch", "pods/status", status=503, times=2), Ending.DONE, "2 of 2"),
        (Fault(Harm.CUT_AFTER, "patch", "pods/status", times=1), Ending.DONE, "gates were closed"),
        (Fault(Harm.GARBAGE, "patch", "pods/status", times=1), Ending.DONE, "gates were closed"),
        (Fault(Harm.REFUSE, "list", "pods", status=500, times=None), Ending.FAILED, "could not be read"),
        (Fault(Harm.REFUSE, "list", "pods", status=403, times=None), Ending.REFUSED, "could not be read"),
        (Fault(Harm.EMPTY, "list", "pods", times=None), Ending.FAILED, "could not be read"),
    ],
)
def test_what_the_api_server_does_to_it(place: World, fault: Fault, ending: Ending, words: str) -> None:
    gate = gate_of(place)
    gate.restore(place.after(30))
    place.server.faults.switch_on(fault)
    answer = gate.stop_new("x", place.after(60))
    assert (answer.ending, words in answer.note) == (ending, True), answer
    place.server.faults.switch_off()
    assert gate.stop_new("x", place.after(60)).ending is Ending.DONE


def test_a_pod_of_another_uid_is_not_touched(place: World) -> None:
    find = place.find(LWS, "0")
    gate_of(place).restore(place.after(30))
    stale = find(place.after(5))
    stale = replace(stale, pods=tuple(replace(one, uid="of-before") for one in stale.pods))
    answers = [stale]

    def pods(deadline: Deadline) -> InstanceView:
        return answers.pop() if answers else find(deadline)

    written = len(place.server.recorder.asked(verb="patch"))
    answer = ReadinessGate(place.client, "gate", pods, pause=lambda _: None).stop_new("x", Deadline.after(0.3))
    assert answer.ending is Ending.TIMED_OUT, answer
    assert answer.note.startswith("0 of 2 gates")
    assert ready(place) == [True, True]
    assert len(place.server.recorder.asked(verb="patch")) == written


def test_what_is_not_known_well_enough_is_not_stopped(place: World) -> None:
    find = place.find(LWS, "0")

    def unclear(deadline: Deadline) -> InstanceView:
        return replace(find(deadline), problem="two pods in one place")

    gate = ReadinessGate(place.client, "gate", unclear, pause=place.pause)
    answer = gate.stop_new("x", place.after(5))
    assert answer.ending is Ending.REFUSED
    assert "two pods in one place" in answer.note
    assert gate.look(place.after(5)).state is TrafficState.UNKNOWN


def test_no_pods_are_no_traffic() -> None:
    with world(workload("StatefulSet", replicas=0)) as place:
        find = place.find(WorkloadKind.STATEFUL_SET)
        gate = ReadinessGate(place.client, "gate", lambda d: replace(find(d), problem=""), pause=place.pause)
        assert gate.look(place.after(5)).state is TrafficState.ABSENT
        assert gate.stop_new("x", place.after(5)).ending is Ending.DONE
        assert gate.restore(place.after(5)).ending is Ending.FAILED
        assert not place.server.recorder.asked(verb="patch")


def test_the_controller_opens_only_what_nobody_has_spoken_of(place: World) -> None:
    pod = pod_view(place.client.get(PODS, "llm-0", NAMESPACE, Deadline.after(5)))
    stale = replace(pod, resource_version="1")
    with pytest.raises(Conflict):
        open_gate(place.client, stale, Deadline.after(5))
    assert open_gate(place.client, pod, Deadline.after(5))
    place.cluster.settle()
    now = pod_view(place.client.get(PODS, "llm-0", NAMESPACE, Deadline.after(5)))
    assert now.gates == {GATE: True}
    assert not open_gate(place.client, now, Deadline.after(5))
    assert not open_gate(place.client, replace(pod, resource_version=""), Deadline.after(5))
    with pytest.raises(NotThere):
        open_gate(place.client, replace(pod, resource_version="", uid="other"), Deadline.after(5))
    with pytest.raises(KubeError):
        open_gate(place.client, replace(pod, name="gone"), Deadline.after(5))


def test_every_pod_that_was_touched_says_so(place: World) -> None:
    events = Events(place.client, wall=place.cluster.clock, host="here")
    gate = gate_of(place, events=events)
    gate.restore(place.after(30))
    gate.stop_new("a rank\nwas killed", place.after(30))
    events.close(Deadline.after(10))
    told = [one for one in place.cluster.store.list("events", NAMESPACE) if one["source"]["component"] == "rankmuster"]
    assert sorted((one["involvedObject"]["name"], one["reason"], one["type"]) for one in told) == [
        ("llm-0", "TrafficRestored", "Normal"),
        ("llm-0", "TrafficStopped", "Warning"),
        ("llm-0-1", "TrafficRestored", "Normal"),
        ("llm-0-1", "TrafficStopped", "Warning"),
    ]
    assert {one["involvedObject"]["uid"] for one in told} == set(place.uids().values())


def test_a_dry_run_says_what_it_would_send() -> None:
    gate = ReadinessGate(None, "gate", None)  # type: ignore[arg-type]
    assert gate.would("stop_new") == (
        "PATCH pods/*/status of the instance: condition rankmuster.dev/serving=False"
        "  # every pod, bound to its UID and resourceVersion",
    )
    assert "=True" in gate.would("restore")[0]
    assert gate.would("set_weight", percent=30)[0].startswith("nothing")
