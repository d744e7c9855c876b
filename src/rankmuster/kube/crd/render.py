"""Our CustomResourceDefinitions, made from the models: names, columns of `kubectl get`, one version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from rankmuster.kube.crd.admission import AdmissionSpec, AdmissionStatus
from rankmuster.kube.crd.incident import IncidentSpec, IncidentStatus
from rankmuster.kube.crd.policy import PolicySpec, PolicyStatus
from rankmuster.kube.crd.release import ReleaseSpec
from rankmuster.kube.crd.structural import Schema, structural
from rankmuster.model.kube import API_VERSION, DOMAIN, SCHEMA, SCHEMA_ANNOTATION

CATEGORY = "rankmuster"
"""`kubectl get rankmuster` shows the objects of all of them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One of `kubectl get`. `wide`: only with `-o wide`. `type`: OpenAPI's, or `date`, shown as an age."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def render(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "jsonPath": self.path} | ({"priority": 1} if self.wide else {})


def _condition(type_: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].status'


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Resource:
    """One of our kinds. `says`: the first line of `kubectl explain`. `status`: None where nobody reports on it.
    `written_once`: the API server refuses any change of the spec."""

    kind: str
    plural: str
    short: str
    spec: type[BaseModel]
    status: type[BaseModel] | None
    says: str
    columns: tuple[Column, ...]
    namespaced: bool = True
    written_once: bool = False

    @property
    def name(self) -> str:
        """Of the definition."""
        return f"{self.plural}.{DOMAIN}"


RESOURCES = (
    Resource(
        "CommunicationPolicy",
        "communicationpolicies",
        "cpol",
        PolicySpec,
        PolicyStatus,
        "Which instances are looked after, by which deadlines and budgets, and what may act on them.",
        (
            Column("Accepted", _condition("Accepted")),
            Column("Acting", _condition("Acting")),
            Column("Instances", ".status.matched", "integer"),
            Column("Open", ".status.openIncidents", "integer"),
            Column("Enabled", ".spec.enable", wide=True),
            Column("Paused", ".spec.paused", "boolean", wide=True),
            AGE,
        ),
    ),
    Resource(
        "CommunicationIncident",
        "communicationincidents",
        "cinc",
        IncidentSpec,
        IncidentStatus,
        "One run of the runbook for one incarnation of an instance; its status tells what was done and why.",
        (
            Column("Instance", ".spec.instance"),
            Column("Class", ".status.class"),
            Column("Subclass", ".status.subclass"),
            Column("Phase", ".status.phase"),
            Column("Waits", _condition("WaitsForApproval")),
            Column("Outcome", ".status.outcome"),
            Column("Confidence", ".status.confidence", wide=True),
            Column("Boundary", ".status.boundary", wide=True),
            Column("Suspects", ".status.suspects", wide=True),
            Column("Evidence", _condition("EvidenceSaved"), wide=True),
            AGE,
        ),
    ),
    Resource(
        "NodeAdmission",
        "nodeadmissions",
        "nadm",
        AdmissionSpec,
        AdmissionStatus,
        "Whether a node may carry instances: one for each node as it was found, with the result and its reasons.",
        (
            Column("Node", ".spec.node"),
            Column("Phase", ".status.phase"),
            Column("Decision", ".status.decision"),
            Column("Reason", ".status.reasons[0]"),
            Column("Attempts", ".status.attempts", "integer", wide=True),
            Column("Trigger", ".spec.trigger", wide=True),
            Column("Job", ".status.job", wide=True),
            AGE,
        ),
        namespaced=False,
    ),
    Resource(
        "ApprovedRelease",
        "approvedreleases",
        "crel",
        ReleaseSpec,
        None,
        "A record of the release gate: an approval to take traffic, or a way back. Written once, never changed.",
        (
            Column("Release", ".spec.release"),
            Column("Number", ".spec.number", "integer"),
            Column("Kind", ".spec.kind"),
            Column("By", ".spec.by"),
            Column("Reason", ".spec.reason", wide=True),
            Column("Hash", ".spec.hash", wide=True),
            AGE,
        ),
        written_once=True,
    ),
)


WRITTEN_ONCE: Schema = {
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a record is written once, and never changed"}]
}
"""A transition rule (Kubernetes 1.25 and later): checked when an object is changed, and not when it is made."""


def definition(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one of our kinds, in the one version that is served and stored."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.name,
            "annotations": {SCHEMA_ANNOTATION: str(SCHEMA)},
            "labels": {"app.kubernetes.io/name": "rankmuster", "app.kubernetes.io/component": "definitions"},
        },
        "spec": {
            "group": DOMAIN,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [resource.short],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": API_VERSION.partition("/")[2],
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if resource.status is not None else {}),
                    "additionalPrinterColumns": [column.render() for column in resource.columns],
                    "schema": {"openAPIV3Schema": schema_of(resource)},
                }
            ],
        },
    }


def schema_of(resource: Resource) -> Schema:
    """Of whole objects. `status` may be missing: whoever creates one writes the spec alone."""
    named = {"description": "See `kubectl explain` of any Kubernetes object.".replace("`", "")}
    return {
        "description": resource.says,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": named | {"type": "string"},
            "kind": named | {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(resource.spec) | (WRITTEN_ONCE if resource.written_once else {}),
            **({"status": structural(resource.status)} if resource.status is not None else {}),
        },
    }


def definitions() -> tuple[dict[str, Any], ...]:
    """All of ours, in the order in which they are applied."""
    return tuple(definition(one) for one in RESOURCES)
