"""Merge, JSON and strategic merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from kube_sim.kinds import BUILT_IN
from kube_sim.made import definition, pod, thing
from kube_sim.patches import json_patched, merged, strategic
from kube_sim.problems import ApiProblem
from kube_sim.shapes import shape_of
from kube_sim.store import Store

POD = shape_of(next(info for info in BUILT_IN if info.key == "pods"))
NODE = shape_of(next(info for info in BUILT_IN if info.key == "nodes"))


def test_a_merge_patch_replaces_lists_and_null_removes() -> None:
    assert merged({"a": [1, 2], "b": {"c": 1, "d": 2}}, {"a": [3], "b": {"c": None}}) == {"a": [3], "b": {"d": 2}}


@pytest.mark.parametrize(
    ("operations", "after"),
    [
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3], "k/~": {}}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2], "k/~": {}}),
        ([{"op": "remove", "path": "/a/1"}], {"a": [1], "k/~": {}}),
        ([{"op": "replace", "path": "/k~1~0", "value": 1}], {"a": [1, 2], "k/~": 1}),
        ([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2], "k/~": {}}),
        ([{"op": "test", "path": "/a", "value": [1, 2]}], {"a": [1, 2], "k/~": {}}),
    ],
)
def test_json_patches(operations: list[Any], after: Any) -> None:
    assert json_patched({"a": [1, 2], "k/~": {}}, operations) == after


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "add", "path": "/b/c", "value": 2}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "grow", "path": "/a"}], 400),
        ({"op": "add"}, 400),
    ],
)
def test_json_patches_that_do_not_apply_change_nothing(operations: Any, status: int) -> None:
    store = Store()
    made = store.create(pod(labels={"a": "1"}))
    if isinstance(operations, list):
        operations = [{**one, "path": "/metadata/labels" + one["path"]} for one in operations]
        operations.insert(0, {"op": "add", "path": "/metadata/labels/z", "value": "1"})
    with pytest.raises(ApiProblem) as told:
        store.patch("pods", "default", "a", operations, kind="json")
    assert told.value.status == status
    assert store.get("pods", "default", "a") == made


def test_a_strategic_patch_merges_conditions_and_replaces_taints() -> None:
    before = {"status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}]}}
    patch = {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}}
    assert strategic(before, patch, POD)["status"]["conditions"] == [
        {"type": "A", "status": "False", "reason": "r"},
        {"type": "B", "status": "True"},
    ]
    gone = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}
    assert strategic(before, gone, POD)["status"]["conditions"] == []
    taints = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    assert strategic(taints, {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, NODE) == {
        "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}
    }


def test_a_strategic_patch_heeds_order_and_removal_of_plain_values() -> None:
    before = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]}}
    after = strategic(
        before,
        {
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]},
            "spec": {"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}], "containers": [{"name": "y"}]},
        },
        POD,
    )
    assert after["metadata"]["finalizers"] == ["b"]
    assert [one["name"] for one in after["spec"]["containers"]] == ["y", "x"]


def test_custom_resources_take_no_strategic_patch() -> None:
    store = Store()
    store.create(definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    store.create(thing())
    with pytest.raises(ApiProblem) as told:
        store.patch("things.example.dev", "default", "t", {"spec": {}}, kind="strategic")
    assert told.value.status == 415
