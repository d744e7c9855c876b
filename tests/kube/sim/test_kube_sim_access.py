"""Roles are enforced for a token, and the recorder says what rights were used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_sim.asking import APPLY, ask
from kube_sim.made import pod
from kube_sim.running import serving
from kube_sim.server import Server
from kube_sim.store import Store

PODS = "/api/v1/namespaces/ml/pods"
RBAC = "rbac.authorization.k8s.io"


def bind(store: Store, rules: list[dict[str, Any]], *, cluster: bool) -> None:
    start = "Cluster" if cluster else ""
    metadata = {"name": f"r{len(store.rows(f'roles.{RBAC}'))}", **({} if cluster else {"namespace": "ml"})}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    store.create({**head, "kind": f"{start}Role", "rules": rules})
    role = {"apiGroup": RBAC, "kind": f"{start}Role", "name": metadata["name"]}
    subject = {"kind": "ServiceAccount", "namespace": "ops", "name": "agent"}
    store.create({**head, "kind": f"{start}RoleBinding", "roleRef": role, "subjects": [subject]})


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Store()) as made:
        made.store.create(pod(namespace="ml"))
        made.access.admit("secret", "system:serviceaccount:ops:agent")
        made.access.enforced = True
        yield made


def status(server: Server, method: str, path: str, body: Any = None, kind: str = "application/json") -> int:
    return ask(server.url, method, path, body, kind, Authorization="Bearer secret").status


def test_what_no_role_gives_is_forbidden_in_the_real_one_s_words(server: Server) -> None:
    told = ask(server.url, "DELETE", f"{PODS}/a", Authorization="Bearer secret")
    assert told.body["message"] == (
        'pods "a" is forbidden: User "system:serviceaccount:ops:agent" cannot delete resource "pods" in API group "" '
        'in the namespace "ml"'
    )
    assert told.status == 403
    assert ask(server.url, "GET", PODS, Authorization="Bearer other").status == 401
    told = ask(server.url, "GET", "/api/v1/nodes")
    assert told.body["message"].endswith('cannot list resource "nodes" in API group "" at the cluster scope')
    assert 'User "system:anonymous"' in told.body["message"]


def test_a_role_holds_in_its_namespace_and_for_its_names_and_subresources(server: Server) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["*"]},
    ]
    bind(server.store, rules, cluster=False)
    assert status(server, "GET", f"{PODS}/a") == 200
    assert status(server, "GET", f"{PODS}/b") == 403
    assert status(server, "GET", PODS) == 403
    assert status(server, "GET", "/api/v1/namespaces/default/pods/a") == 403
    assert status(server, "GET", f"{PODS}/a/status") == 200


def test_an_apply_that_makes_something_needs_the_right_to_create(server: Server) -> None:
    bind(server.store, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}], cluster=True)
    query = "fieldManager=x&force=true"
    assert status(server, "PATCH", f"{PODS}/a?{query}", pod(), APPLY) == 200
    assert status(server, "PATCH", f"{PODS}/b?{query}", pod("b"), APPLY) == 403
    bind(server.store, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["create"]}], cluster=False)
    assert status(server, "PATCH", f"{PODS}/b?{query}", pod("b"), APPLY) == 201
    used = server.recorder.rights(user="system:serviceaccount:ops:agent")
    assert used == {("", "pods", "patch"), ("", "pods", "create")}


def test_a_caller_can_ask_what_it_may(server: Server) -> None:
    bind(server.store, [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}], cluster=True)
    for verb, allowed in (("list", True), ("delete", False)):
        body = {"spec": {"resourceAttributes": {"verb": verb, "resource": "nodes"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        told = ask(server.url, "POST", path, body, Authorization="Bearer secret")
        assert told.body["status"] == {"allowed": allowed}


def test_the_recorder_keeps_who_asked_what(server: Server) -> None:
    server.access.enforced = False
    ask(server.url, "GET", f"{PODS}?watch=1&timeoutSeconds=0.01", User_Agent="one/1")
    ask(server.url, "POST", PODS, pod("b"), User_Agent="one/1")
    ask(server.url, "GET", PODS, User_Agent="two/1")
    seen = [(one.verb, one.resource, one.namespace, one.name, one.status) for one in server.recorder.asked(agent="one")]
    assert seen == [("watch", "pods", "ml", None, 200), ("create", "pods", "ml", "b", 201)]
    assert server.recorder.counts[("", "pods", "list")] == 1
