"""Server-side apply: conflicts, shared fields, what is no longer wanted, lists by keys, sets and atomic lists."""

from __future__ import annotations

from typing import Any

import pytest

from kube_sim.made import definition, pod, thing
from kube_sim.problems import ApiProblem
from kube_sim.store import Store


@pytest.fixture
def store() -> Store:
    return Store(clock=lambda: 1_000_000.0)


def apply(store: Store, manager: str, body: dict[str, Any], force: bool = False, subresource: str | None = None) -> Any:
    whole = {"apiVersion": "v1", "kind": "Pod", **body}
    whole["metadata"] = {"name": "a", **body.get("metadata", {})}
    return store.patch(
        "pods", "default", "a", whole, kind="apply", manager=manager, force=force, subresource=subresource
    )


def condition(kind: str, status: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


def test_a_value_that_another_manager_owns_is_a_conflict_that_names_both(store: Store) -> None:
    apply(store, "one", {**pod(labels={"x": "1", "y": "1"})})
    with pytest.raises(ApiProblem) as told:
        apply(store, "two", {"metadata": {"labels": {"x": "2"}}})
    assert told.value.message == 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.x'
    assert told.value.details["causes"][0]["field"] == ".metadata.labels.x"
    taken = apply(store, "two", {"metadata": {"labels": {"x": "2"}}}, force=True)
    assert taken["metadata"]["labels"] == {"x": "2", "y": "1"}
    with pytest.raises(ApiProblem, match='conflict with "two"'):
        apply(store, "one", {**pod(labels={"x": "1", "y": "1"})})


def test_the_same_value_is_shared_and_stays_until_the_last_gives_it_up(store: Store) -> None:
    apply(store, "one", {**pod(labels={"x": "1"})})
    apply(store, "two", {"metadata": {"labels": {"x": "1", "z": "1"}}})
    assert apply(store, "one", pod())["metadata"]["labels"] == {"x": "1", "z": "1"}
    assert "labels" not in apply(store, "two", {"metadata": {}})["metadata"]


def test_what_was_there_before_anybody_applied_is_somebody_s(store: Store) -> None:
    store.create(pod(labels={"x": "1"}))
    with pytest.raises(ApiProblem, match="before-first-apply"):
        apply(store, "one", {"metadata": {"labels": {"x": "2"}}})


def test_an_update_takes_fields_from_who_has_applied_them(store: Store) -> None:
    apply(store, "one", {**pod(labels={"x": "1"})})
    store.patch("pods", "default", "a", {"metadata": {"labels": {"x": "2"}}}, manager="kubectl-edit")
    with pytest.raises(ApiProblem, match='conflict with "kubectl-edit" using v1 at 1970-01-12T13:46:40Z'):
        apply(store, "one", {**pod(labels={"x": "1"})})


def test_conditions_are_told_apart_by_their_type(store: Store) -> None:
    store.create({**pod(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    seen = apply(store, "gate", condition("rankmuster.dev/serving", "True"), subresource="status")
    assert [one["type"] for one in seen["status"]["conditions"]] == ["Ready", "rankmuster.dev/serving"]
    seen = apply(store, "gate", {"status": {}}, subresource="status")
    assert [one["type"] for one in seen["status"]["conditions"]] == ["Ready"]


def test_status_is_not_applied_without_its_subresource(store: Store) -> None:
    store.create(pod())
    assert "conditions" not in apply(store, "gate", condition("X", "True"))["status"]


def test_containers_are_merged_by_name_and_finalizers_are_a_set(store: Store) -> None:
    two = [{"name": "engine", "image": "x"}, {"name": "side", "image": "y"}]
    apply(store, "one", {"metadata": {"finalizers": ["example.dev/a"]}, "spec": {"containers": two}})
    seen = apply(
        store,
        "two",
        {"metadata": {"finalizers": ["example.dev/b"]}, "spec": {"containers": [{"name": "side", "image": "z"}]}},
        force=True,
    )
    assert [one["image"] for one in seen["spec"]["containers"]] == ["x", "z"]
    assert seen["metadata"]["finalizers"] == ["example.dev/a", "example.dev/b"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
    seen = apply(store, "three", {"metadata": {"ownerReferences": [owner]}})
    seen = apply(store, "four", {"metadata": {"ownerReferences": [{**owner, "uid": "v"}]}})
    assert [one["uid"] for one in seen["metadata"]["ownerReferences"]] == ["u", "v"]
    seen = apply(store, "three", {"metadata": {}})
    assert [one["uid"] for one in seen["metadata"]["ownerReferences"]] == ["v"]


def test_taints_of_a_node_are_one_piece_as_in_the_real_server(store: Store) -> None:
    """Who applies one taint takes the whole list: a tool that shares a node with others may not apply taints."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    taint = {"key": "a", "effect": "NoSchedule"}
    store.create({**node, "spec": {"taints": [taint]}})
    mine = {**node, "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    with pytest.raises(ApiProblem, match=r"\.spec\.taints"):
        store.patch("nodes", None, "n", mine, kind="apply", manager="me")
    seen = store.patch("nodes", None, "n", mine, kind="apply", manager="me", force=True)
    assert [one["key"] for one in seen["spec"]["taints"]] == ["b"]


def test_what_changes_nothing_has_no_new_version_and_no_new_time() -> None:
    now = [1_000_000.0]
    store = Store(clock=lambda: now[0])
    first = apply(store, "one", {**pod(labels={"x": "1"})})
    now[0] += 60
    assert apply(store, "one", {**pod(labels={"x": "1"})}) == first


def test_an_apply_is_bound_to_version_and_uid(store: Store) -> None:
    first = apply(store, "one", pod())["metadata"]
    apply(store, "one", {**pod(labels={"x": "1"})})
    with pytest.raises(ApiProblem, match="has been modified"):
        apply(store, "one", {**pod(resourceVersion=first["resourceVersion"])})
    with pytest.raises(ApiProblem, match="field is immutable"):
        apply(store, "one", {**pod(uid="another")})
    store.delete("pods", "default", "a", grace=0)
    with pytest.raises(ApiProblem, match="uid mismatch") as told:
        apply(store, "one", {**pod(uid=first["uid"])})
    assert told.value.status == 409


def test_an_apply_without_a_manager_is_refused(store: Store) -> None:
    with pytest.raises(ApiProblem, match="fieldManager: Required value") as told:
        apply(store, "", pod())
    assert told.value.status == 422


def test_custom_resources_follow_the_list_types_of_their_schema(store: Store) -> None:
    rows = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        },
    }
    spec = {"type": "object", "properties": {"rows": rows, "words": {"type": "array", "items": {"type": "string"}}}}
    store.create(definition({"type": "object", "properties": {"spec": spec}}))

    def one(manager: str, **more: Any) -> Any:
        return store.patch("things.example.dev", "default", "t", thing(spec=more), kind="apply", manager=manager)

    one("one", rows=[{"name": "a", "n": 1}], words=["x"])
    seen = one("two", rows=[{"name": "b", "n": 2}])
    assert [row["name"] for row in seen["spec"]["rows"]] == ["a", "b"]
    with pytest.raises(ApiProblem, match=r'conflict with "one": \.spec\.words'):
        one("two", rows=[], words=["y"])
    assert [row["name"] for row in one("two")["spec"]["rows"]] == ["a"]
