"""The table of `rbac` as roles and bindings, one pair for each part, so that what is not bound cannot be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rankmuster.kube.rbac import CLUSTER, NAMESPACE, PARTS, Part, Rule

INSTALLED_IN = "rankmuster"
"""The namespace of our manifests."""

CONTROLLER = "rankmuster-controller"
"""The controller's service account."""

RBAC = "rbac.authorization.k8s.io"


def roles(parts: Iterable[Part] = PARTS, namespace: str = INSTALLED_IN) -> tuple[dict[str, Any], ...]:
    """Roles of `parts`, and what binds them to the controller's account in `namespace`."""
    made: list[dict[str, Any]] = []
    for part in parts:
        name = f"rankmuster-{part.value}"
        if rules := CLUSTER.get(part):
            made += _pair("ClusterRole", name, rules, part, namespace, None)
        if rules := NAMESPACE.get(part):
            made += _pair("Role", name, rules, part, namespace, namespace)
    return tuple(made)


def _pair(
    kind: str, name: str, rules: Sequence[Rule], part: Part, account_in: str, namespace: str | None
) -> list[dict[str, Any]]:
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata["labels"] = {
        "app.kubernetes.io/name": "rankmuster",
        "app.kubernetes.io/component": "controller",
        "rankmuster.dev/part": part.value,
    }
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": [rule.render() for rule in rules],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": account_in}],
        },
    ]
