"""Parts of objects with rules of their own: eviction, binding, ephemeral containers, scale, status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kube_sim.asking import MERGE, STRATEGIC, ask
from kube_sim.made import pod
from kube_sim.running import serving
from kube_sim.server import Server
from kube_sim.store import Store

PODS = "/api/v1/namespaces/default/pods"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Store()) as made:
        yield made


def ready(name: str) -> dict:
    conditions = [{"type": "Ready", "status": "True"}]
    return {**pod(name, labels={"x": "1"}), "status": {"phase": "Running", "conditions": conditions}}


def test_an_eviction_that_a_budget_forbids_is_429_and_does_nothing(server: Server) -> None:
    server.store.create(ready("a"))
    server.store.create(ready("b"))
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"}}
    server.store.create({**budget, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"x": "1"}}}})
    told = ask(server.url, "POST", f"{PODS}/a/eviction", EVICTION)
    assert (told.status, told.reason) == (429, "TooManyRequests")
    assert told.body["details"]["causes"][0]["message"] == (
        "The disruption budget p needs 2 healthy pods and has 2 currently"
    )
    assert "deletionTimestamp" not in server.store.get("pods", "default", "a")["metadata"]
    server.store.create(ready("c"))
    assert ask(server.url, "POST", f"{PODS}/a/eviction", EVICTION).status == 201
    left = server.store.get("pods", "default", "a")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert left["status"]["conditions"][-1]["type"] == "DisruptionTarget"


def test_a_pod_is_bound_once(server: Server) -> None:
    server.store.create(pod(node=None))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    assert ask(server.url, "POST", f"{PODS}/a/binding", body).status == 201
    assert server.store.get("pods", "default", "a")["spec"]["nodeName"] == "n1"
    assert ask(server.url, "POST", f"{PODS}/a/binding", body).status == 409


def test_ephemeral_containers_come_and_none_goes(server: Server) -> None:
    server.store.create(pod())
    more = {"spec": {"ephemeralContainers": [{"name": "look", "image": "y", "targetContainerName": "engine"}]}}
    assert ask(server.url, "PATCH", f"{PODS}/a", more, STRATEGIC).status == 422
    told = ask(server.url, "PATCH", f"{PODS}/a/ephemeralcontainers", more, STRATEGIC)
    assert [one["name"] for one in told.body["spec"]["ephemeralContainers"]] == ["look"]
    gone = {"spec": {"ephemeralContainers": []}}
    assert ask(server.url, "PATCH", f"{PODS}/a/ephemeralcontainers", gone, MERGE).status == 422


def test_scale_shows_and_sets_replicas(server: Server) -> None:
    template = {"metadata": {"labels": {"x": "1"}}, "spec": {"containers": [{"name": "e"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"x": "1"}}, "template": template}
    server.store.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec})
    path = "/apis/apps/v1/namespaces/default/statefulsets/s/scale"
    assert ask(server.url, "GET", path).body["spec"] == {"replicas": 2}
    assert ask(server.url, "PATCH", path, {"spec": {"replicas": 0}}, MERGE).body["spec"] == {"replicas": 0}
    assert server.store.get("statefulsets.apps", "default", "s")["spec"]["replicas"] == 0


@pytest.mark.parametrize("part", ["none", "portforward", "status/x"])
def test_parts_that_are_not_there(server: Server, part: str) -> None:
    server.store.create(pod())
    assert ask(server.url, "GET", f"{PODS}/a/{part}").status == 404


def test_exec_and_log_without_a_kubelet_say_so(server: Server) -> None:
    server.store.create(pod())
    server.store.create(pod("b", node=None))
    told = ask(server.url, "GET", f"{PODS}/a/log")
    assert (told.status, "no kubelet on n1" in told.body["message"]) == (500, True)
    told = ask(server.url, "POST", f"{PODS}/a/exec?command=ls")
    assert told.status == 500
    assert ask(server.url, "GET", f"{PODS}/b/log").body["message"] == "pod b does not have a host assigned"
    assert "container odd is not valid" in ask(server.url, "GET", f"{PODS}/a/log?container=odd").body["message"]
