"""The three definitions: an API server takes them, people see what they need, and whatever we write fits into them."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from typer.testing import CliRunner
from yaml import safe_load_all

import kube_openapi
from rankmuster.adapters.kube.api import ADMISSIONS, INCIDENTS, POLICIES, RELEASES
from rankmuster.cli.main import whole_app
from rankmuster.kube.crd.admission import AdmissionSpec, AdmissionStatus, Phase
from rankmuster.kube.crd.base import Condition, Selector
from rankmuster.kube.crd.incident import IncidentSpec, IncidentStatus, Row
from rankmuster.kube.crd.policy import Deadlines, PolicySpec, PolicyStatus, Probe
from rankmuster.kube.crd.release import ReleaseSpec
from rankmuster.kube.crd.render import RESOURCES, Resource, definition, definitions, schema_of
from rankmuster.model.incident import Step

MINORS = ("1.34", "1.35", "1.36", "1.37")
MOST_BYTES = 262_144
"""Of all annotations of one object: `kubectl apply` keeps the whole object in one."""

ALLOWED = {
    "additionalProperties",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
}

AT = "2026-11-29T12:00:00Z"
CONDITION = Condition(type="Accepted", status="True", reason="Fine", last_transition_time=AT)

OBJECTS = {
    "CommunicationPolicy": (
        PolicySpec(
            selector=Selector(match_labels={"app": "llm"}),
            enable=("traffic", "group"),
            deadlines=Deadlines(total=900, steps={Step.EVIDENCE: 30.0}),
            probe=Probe(port=8000),
        ),
        PolicyStatus(matched=1, conditions=(CONDITION,)),
    ),
    "CommunicationIncident": (
        IncidentSpec(incident="i-1", policy="llm", instance="ns.llm.0", workload="LeaderWorkerSet/llm"),
        IncidentStatus(
            sequence=3,
            opened_at=AT,
            fault="collective_desync",
            timeline=tuple(Row(at=AT, what="opened") for _ in range(150)),
        ),
    ),
    "NodeAdmission": (
        AdmissionSpec(node="gpu-1", node_uid="u-1", watched="f00d"),
        AdmissionStatus(phase=Phase.REFUSED, reasons=("slow: 312 of 480 GB/s",), class_="abc"),
    ),
    "ApprovedRelease": (
        ReleaseSpec(
            release="llm-0",
            number=1,
            kind="approval",
            made_at=AT,
            by="jane",
            hash="sha256:00",
            images=("sha256:aa",),
            versions={"nccl": "2.28.9"},
            document="{}",
        ),
        None,
    ),
}


@pytest.mark.parametrize("minor", MINORS)
def test_the_api_servers_own_types_take_them(minor: str) -> None:
    for one in definitions():
        kubernetes_validate.validate(one, minor, strict=True)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)
def test_the_schema_is_structural_and_has_bounds(resource: Resource) -> None:
    for place, schema in kube_openapi.places(schema_of(resource)):
        assert set(schema) <= ALLOWED, place
        assert "type" in schema, place
        assert not {"properties", "additionalProperties"} <= set(schema), place
        if schema["type"] == "array":
            assert schema["maxItems"] <= 150, place
        if "additionalProperties" in schema:
            assert schema["maxProperties"], place
        if schema["type"] == "string" and place not in (".apiVersion", ".kind"):
            assert {"enum", "maxLength"} & set(schema), place
        if "enum" in schema:
            assert len(set(schema["enum"])) == len(schema["enum"]), place


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)
def test_it_fits_into_what_kubectl_apply_keeps(resource: Resource) -> None:
    assert len(str(definition(resource))) < MOST_BYTES / 4


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)
@pytest.mark.parametrize("none", [True, False])
def test_what_the_models_write_fits(resource: Resource, none: bool) -> None:
    spec, status = OBJECTS[resource.kind]
    for model in (one for one in (spec, status) if one is not None):
        written = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=none)
        part = "spec" if model is spec else "status"
        assert kube_openapi.problems(schema_of(resource)["properties"][part], written) == []


def _policy(**spec: Any) -> list[str]:
    given = {"selector": {"matchLabels": {"app": "llm"}}} | spec
    return kube_openapi.problems(schema_of(RESOURCES[0]), {"spec": given})


@pytest.mark.parametrize(
    "spec",
    [
        {"enable": ["everything"]},
        {"deadlines": {"steps": {"evidense": 3}}},
        {"deadlines": {"total": 0}},
        {"slowPercent": 100},
        {"probe": {"port": 0}},
        {"unknown": 1},
        {"selector": None},
        {"kinds": ["CronJob"]},
        {"paused": 7},
        {"evidence": {"upload": "ftp://x"}},
    ],
)
def test_what_the_model_refuses_an_api_server_refuses_as_well(spec: dict[str, Any]) -> None:
    assert _policy() == []
    assert _policy(**spec) != []
    with pytest.raises(ValueError, match="validation error"):
        PolicySpec.model_validate({"selector": {"matchLabels": {"app": "llm"}}} | spec)


def test_names_are_those_that_the_client_uses() -> None:
    for kind, resource in zip((POLICIES, INCIDENTS, ADMISSIONS, RELEASES), RESOURCES, strict=True):
        assert (kind.kind, kind.plural, kind.namespaced) == (resource.kind, resource.plural, resource.namespaced)
        made = definition(resource)
        assert made["metadata"]["name"] == f"{kind.plural}.{kind.group}"
        assert made["spec"]["versions"][0]["name"] == kind.version


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.kind)
def test_columns_show_fields_that_exist(resource: Resource) -> None:
    known = {place for place, _ in kube_openapi.places(schema_of(resource))}
    for column in resource.columns:
        field = column.path.partition("[")[0]
        assert field in known or field == ".metadata.creationTimestamp"
    shown = [column for column in resource.columns if not column.wide]
    assert len(shown) <= 8, "a terminal is 120 columns wide"


def test_the_command_prints_all_of_them_and_the_roles() -> None:
    printed = CliRunner().invoke(whole_app(), ["kube", "crds"])
    assert tuple(safe_load_all(printed.output)) == definitions()
    kinds = {one["kind"] for one in safe_load_all(CliRunner().invoke(whole_app(), ["kube", "crds", "--rbac"]).output)}
    assert kinds == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
