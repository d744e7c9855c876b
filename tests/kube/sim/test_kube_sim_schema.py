"""CustomResourceDefinitions make resources, whose objects are held to their schema; Kubernetes' own are decoded."""

from __future__ import annotations

from typing import Any

import pytest

from kube_sim.made import definition, pod, thing
from kube_sim.problems import ApiProblem
from kube_sim.store import Store

KEY = "things.example.dev"
SPEC = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "n": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "words": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "port": {"x-kubernetes-int-or-string": True},
        "none": {"type": "string", "nullable": True},
    },
}


@pytest.fixture
def store() -> Store:
    made = Store()
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    made.create(definition({"type": "object", "properties": {"spec": SPEC, "status": status}}))
    return made


def test_a_definition_is_established_and_what_is_unknown_is_dropped(store: Store) -> None:
    seen = store.get("customresourcedefinitions.apiextensions.k8s.io", None, KEY)
    assert [one["type"] for one in seen["status"]["conditions"]] == ["NamesAccepted", "Established"]
    spec = {"name": "a", "odd": 1, "free": {"x": {"y": 1}}, "map": {"z": 1}, "port": "http", "none": None}
    made = store.create(thing(spec=spec, odd=2))
    assert made["spec"] == {"name": "a", "n": 3, "free": {"x": {"y": 1}}, "map": {"z": 1}, "port": "http", "none": None}
    assert "odd" not in made


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "spec.name: Required value"),
        ({"name": None}, "spec.name: Required value"),
        ({"name": 1}, 'must be of type string: "integer"'),
        ({"name": "A"}, "should match"),
        ({"name": "abcdef"}, "Too long"),
        ({"name": "a", "n": 0}, "should be greater than or equal to 1"),
        ({"name": "a", "n": 10}, "should be less than or equal to 9"),
        ({"name": "a", "n": True}, "must be of type integer"),
        ({"name": "a", "n": 1.5}, "must be of type integer"),
        ({"name": "a", "share": 0}, "should be greater than 0"),
        ({"name": "a", "mode": "odd"}, 'supported values: "fast", "slow"'),
        ({"name": "a", "words": ["a", "b", "c"]}, "Too many: 3"),
        ({"name": "a", "words": [None]}, "words[0]"),
        ({"name": "a", "map": {"z": "1"}}, "spec.map.z"),
        ([], "spec in body must be of type object"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused(store: Store, spec: Any, told: str) -> None:
    with pytest.raises(ApiProblem) as refused:
        store.create(thing(spec=spec))
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert told in refused.value.message
    assert store.list(KEY) == []


def test_a_strict_caller_hears_of_unknown_fields(store: Store) -> None:
    with pytest.raises(ApiProblem, match=r'unknown field "spec\.odd"') as told:
        store.create(thing(spec={"name": "a", "odd": 1}), check="Strict")
    assert told.value.status == 400
    store.create(thing(spec={"name": "a", "odd": 1}), check="Warn")
    assert store.warnings() == ['unknown field "spec.odd"']


def test_a_custom_resource_is_not_updated_without_its_version(store: Store) -> None:
    made = store.create(thing(spec={"name": "a"}))
    del made["metadata"]["resourceVersion"]
    with pytest.raises(ApiProblem, match=r"metadata\.resourceVersion") as told:
        store.update(made)
    assert told.value.status == 422


def test_status_of_a_custom_resource_carries_no_metadata(store: Store) -> None:
    store.create(thing(spec={"name": "a"}))
    body = {"metadata": {"labels": {"x": "1"}}, "spec": {"name": "b"}, "status": {"phase": "P"}}
    seen = store.patch(KEY, "default", "t", body, subresource="status")
    assert (seen["status"], seen["spec"]["name"]) == ({"phase": "P"}, "a")
    assert "labels" not in seen["metadata"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object", "properties": {"spec": {"properties": {}}}}, "type: Required value"),
        ({"type": "object", "properties": {"spec": {"$ref": "#/x", "type": "object"}}}, "$ref"),
        ({"type": "object", "properties": {"spec": {"type": "array"}}}, "items: Required value"),
        ({"type": "object", "properties": {"spec": {"type": "number", "exclusiveMinimum": 0}}}, "boolean"),
        ({"type": "object", "properties": {"spec": {"type": ["string", "null"]}}}, "type"),
        (
            {"type": "object", "properties": {"spec": {"type": "string", "const": "x"}}},
            "openAPIV3Schema.properties.spec.const",
        ),
        (
            {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {}, "additionalProperties": {}}},
            },
            "mutual exclusive",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: Any, told: str) -> None:
    store = Store()
    with pytest.raises(ApiProblem) as refused:
        store.create(definition(schema), check="Strict")
    assert refused.value.status in (400, 422)
    assert told in refused.value.message


def test_a_definition_that_goes_takes_its_objects_along(store: Store) -> None:
    store.create(thing(spec={"name": "a"}))
    heard: list[str] = []
    store.subscribe(KEY, lambda kind, obj: heard.append(kind))
    store.delete("customresourcedefinitions.apiextensions.k8s.io", None, KEY)
    assert heard == ["DELETED"]
    with pytest.raises(ApiProblem, match="could not find the requested resource"):
        store.list(KEY)


@pytest.mark.parametrize(
    ("spec", "status", "told"),
    [
        ({"containers": "x"}, 400, "cannot unmarshal string into Go struct field Pod.spec.containers"),
        ({"containers": [{"image": "x"}]}, 422, "spec.containers[0].name: Required value"),
        ({}, 422, "spec.containers: Required value"),
    ],
)
def test_pods_that_are_no_pods_are_refused(spec: Any, status: int, told: str) -> None:
    with pytest.raises(ApiProblem) as refused:
        Store().create({**pod(), "spec": spec})
    assert refused.value.status == status
    assert told in refused.value.message
