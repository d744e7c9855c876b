"""The store keeps what a real API server keeps: versions, UIDs, preconditions, finalizers, grace periods."""

from __future__ import annotations

import pytest

from kube_sim.made import pod
from kube_sim.problems import ApiProblem
from kube_sim.store import Store

LWS = "leaderworkersets.leaderworkerset.x-k8s.io"


@pytest.fixture
def store() -> Store:
    return Store(clock=lambda: 1_000_000.0)


def group(name: str, **metadata: object) -> dict:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": 1},
    }


def test_a_write_with_an_older_version_is_a_conflict(store: Store) -> None:
    first = store.create(pod())
    store.patch("pods", "default", "a", {"metadata": {"labels": {"x": "1"}}})
    first["metadata"]["labels"] = {"x": "2"}
    with pytest.raises(ApiProblem, match="the object has been modified") as told:
        store.update(first)
    assert (told.value.status, told.value.reason) == (409, "Conflict")
    with pytest.raises(ApiProblem, match="the object has been modified"):
        store.patch("pods", "default", "a", first)
    assert store.get("pods", "default", "a")["metadata"]["labels"] == {"x": "1"}


def test_what_changes_nothing_has_no_new_version(store: Store) -> None:
    made = store.create(pod(labels={"x": "1"}))
    assert store.patch("pods", "default", "a", {"metadata": {"labels": {"x": "1"}}}) == made


def test_a_name_is_another_object_when_it_comes_again(store: Store) -> None:
    first = store.create(pod(node=None))
    store.delete("pods", "default", "a")
    second = store.create(pod(node=None))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    with pytest.raises(ApiProblem, match="UID in the precondition") as told:
        store.delete("pods", "default", "a", uid=first["metadata"]["uid"])
    assert told.value.status == 409
    with pytest.raises(ApiProblem, match="field is immutable") as told:
        store.patch("pods", "default", "a", {"metadata": {"uid": first["metadata"]["uid"], "labels": {"x": "1"}}})
    assert told.value.status == 422
    assert store.get("pods", "default", "a") == second


def test_a_running_pod_that_is_deleted_stays_until_its_kubelet_has_ended_it(store: Store) -> None:
    store.create(pod())
    left = store.delete("pods", "default", "a")["metadata"]
    assert (left["deletionTimestamp"], left["deletionGracePeriodSeconds"]) == ("1970-01-12T13:47:10Z", 30)
    shorter = store.delete("pods", "default", "a", grace=5)["metadata"]
    assert (shorter["deletionTimestamp"], shorter["deletionGracePeriodSeconds"]) == ("1970-01-12T13:46:45Z", 5)
    store.delete("pods", "default", "a", grace=0)
    assert store.list("pods") == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(store: Store, phase: str) -> None:
    store.create({**pod(), "status": {"phase": phase}})
    store.delete("pods", "default", "a")
    assert store.list("pods") == []


def test_finalizers_hold_an_object_and_no_new_ones_come(store: Store) -> None:
    store.create(group("g", finalizers=["example.dev/a"]))
    assert store.delete(LWS, "default", "g", propagation="Foreground")["metadata"]["finalizers"] == [
        "example.dev/a",
        "foregroundDeletion",
    ]
    with pytest.raises(ApiProblem, match="no new finalizers can be added"):
        store.patch(LWS, "default", "g", {"metadata": {"finalizers": ["example.dev/a", "example.dev/b"]}})
    store.patch(LWS, "default", "g", {"metadata": {"finalizers": None}})
    assert store.list(LWS) == []


def test_the_generation_counts_the_spec_and_not_the_status(store: Store) -> None:
    store.create(group("g"))
    store.patch(LWS, "default", "g", {"status": {"replicas": 1}}, subresource="status")
    store.patch(LWS, "default", "g", {"metadata": {"labels": {"x": "1"}}, "status": {"replicas": 9}})
    seen = store.get(LWS, "default", "g")
    assert (seen["metadata"]["generation"], seen["status"]) == (1, {"replicas": 1})
    assert store.patch(LWS, "default", "g", {"spec": {"replicas": 2}})["metadata"]["generation"] == 2


def test_of_a_pod_s_spec_nearly_nothing_can_be_changed(store: Store) -> None:
    store.create(pod())
    with pytest.raises(ApiProblem, match="pod updates may not change fields other than") as told:
        store.patch("pods", "default", "a", {"spec": {"hostname": "other"}})
    assert told.value.status == 422


def test_a_dry_run_changes_nothing_and_tells_nobody(store: Store) -> None:
    heard: list[str] = []
    store.subscribe(None, lambda kind, obj: heard.append(kind))
    version = store.resource_version
    assert store.create(pod(namespace="new"), dry_run=True)["metadata"]["uid"]
    assert (store.resource_version, store.list("pods"), heard) == (version, [], [])


def test_listeners_hear_all_in_order_also_what_they_do_themselves(store: Store) -> None:
    heard: list[tuple[str, str]] = []

    def answer(kind: str, obj: dict) -> None:
        heard.append((kind, obj["metadata"]["name"]))
        if heard == [("ADDED", "a")]:
            store.create(pod("b"))
            heard.append(("done", "a"))

    end = store.subscribe("pods", answer)
    store.create(pod())
    end()
    store.create(pod("c"))
    assert heard == [("ADDED", "a"), ("done", "a"), ("ADDED", "b")]


def test_a_namespace_takes_all_in_it_along_and_goes_when_it_is_empty(store: Store) -> None:
    store.create(pod(namespace="ml"))
    store.delete("namespaces", None, "ml")
    assert store.get("namespaces", None, "ml")["status"]["phase"] == "Terminating"
    with pytest.raises(ApiProblem, match="it is being terminated") as told:
        store.create(pod("b", namespace="ml"))
    assert told.value.status == 403
    store.delete("pods", "ml", "a", grace=0)
    assert [one["metadata"]["name"] for one in store.list("namespaces")] == ["default", "kube-system"]


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a" * 254, "ä"])
def test_names_are_dns_names(store: Store, name: str) -> None:
    with pytest.raises(ApiProblem, match=r"metadata\.name") as told:
        store.create(pod(name))
    assert told.value.status == 422


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ("x=1", ["a"]),
        ("x!=1", ["b", "c"]),
        ("x in (1, 2),!y", ["a"]),
        ("x notin (1)", ["b", "c"]),
        ("y", ["b"]),
        ({"x": "2"}, ["b"]),
    ],
)
def test_label_selectors(store: Store, labels: str, fits: list[str]) -> None:
    store.create(pod("a", labels={"x": "1"}))
    store.create(pod("b", labels={"x": "2", "y": ""}))
    store.create(pod("c"))
    assert [one["metadata"]["name"] for one in store.list("pods", labels=labels)] == fits


def test_field_selectors_are_those_that_the_server_has_an_index_for(store: Store) -> None:
    store.create(pod("a", node="n1"))
    store.create(pod("b", node="n2"))
    assert [one["metadata"]["name"] for one in store.list("pods", fields="spec.nodeName=n2")] == ["b"]
    with pytest.raises(ApiProblem, match=r"field label not supported: spec\.hostname") as told:
        store.list("pods", fields="spec.hostname=x")
    assert told.value.status == 400
