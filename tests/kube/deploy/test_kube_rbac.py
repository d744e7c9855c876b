"""What is bound is what the table says, an observing installation changes nothing of others, no file is out of date."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from kube_manifests import OVERLAYS, ROOT, needs_kubectl, rendered

from rankmuster.kube.controller.settings import ROLES
from rankmuster.kube.rbac import CLUSTER, NAMESPACE, PARTS, Part, rules
from rankmuster.model.kube import DOMAIN

READING = {"get", "list", "watch"}
RECORDS = {
    ("coordination.k8s.io", "leases"),
    ("", "events"),
    *((DOMAIN, name) for name in ("communicationincidents", "nodeadmissions", "communicationpolicies")),
    *((DOMAIN, f"{name}/status") for name in ("communicationincidents", "nodeadmissions", "communicationpolicies")),
}
"""What an observing installation may write: its own objects, who leads, and what it has to say."""

Right = tuple[str, str, str]


def _bound(objects: list[dict[str, Any]]) -> set[Right]:
    """All that the bindings of a rendered installation allow, as (group, resource, verb)."""
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if each["kind"].endswith("Role")}
    return {
        (group, resource, verb)
        for each in objects
        if each["kind"].endswith("RoleBinding")
        for rule in roles[each["roleRef"]["kind"], each["roleRef"]["name"]]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@needs_kubectl
def test_an_observing_installation_holds_no_verb_that_changes_what_is_not_ours() -> None:
    held = _bound(rendered("overlays/observing"))
    assert held == rules([Part.OBSERVE])
    assert {(group, resource) for group, resource, verb in held if verb not in READING} <= RECORDS
    assert {verb for _, resource, verb in held if resource == "communicationpolicies"} == READING


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_role_has_a_wildcard_or_reads_secrets(overlay: str) -> None:
    for group, resource, verb in _bound(rendered(f"overlays/{overlay}")):
        assert "*" not in (group, resource, verb)
        assert resource != "secrets"
        assert resource not in ("pods/exec", "pods/attach", "pods/ephemeralcontainers")
        assert group != "rbac.authorization.k8s.io"


@needs_kubectl
def test_what_acts_has_a_role_of_its_own() -> None:
    assert _bound(rendered("overlays/acting")) == rules(set(PARTS) - {Part.EXEC_EVIDENCE, Part.INCIDENT_PROFILE})
    traffic = _bound(rendered("overlays/acting-traffic-only")) - rules([Part.OBSERVE])
    finalizer = (DOMAIN, "communicationpolicies", "patch")
    assert traffic == {("", "pods/status", "patch"), ("", "pods", "patch"), finalizer}


def test_jobs_are_created_in_our_own_namespace_alone() -> None:
    everywhere = {right for part in PARTS for rule in CLUSTER.get(part, ()) for right in rule.triples()}
    assert not any(verb == "create" and resource in ("jobs", "pods", "services") for _, resource, verb in everywhere)
    assert ("batch", "jobs", "create") in {right for rule in NAMESPACE[Part.RETEST] for right in rule.triples()}


def test_every_name_that_enables_something_has_a_role() -> None:
    assert {part.value for part in PARTS} == {"observe", "exec-evidence", "incident-profile", *ROLES}


def test_no_rule_says_what_another_of_its_part_says() -> None:
    for table in (CLUSTER, NAMESPACE):
        for part, held in table.items():
            said = [right for rule in held for right in rule.triples()]
            assert len(said) == len(set(said)), part
            assert all(rule.why for rule in held)


def test_the_generated_files_are_what_the_code_makes() -> None:
    spec = importlib.util.spec_from_file_location("write_kube_manifests", ROOT / "tools" / "write_kube_manifests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.stale() == [], "run python tools/write_kube_manifests.py"
