"""Small objects for tests of the simulated API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def pod(name: str = "a", node: str | None = "n1", **metadata: Any) -> Object:
    """One that asks for nothing. `node` None: not scheduled."""
    spec: Object = {"containers": [{"name": "engine", "image": "x"}], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def definition(
    schema: Mapping[str, Any] | None, *, plural: str = "things", kind: str = "Thing", version: str = "v1"
) -> Object:
    """A CustomResourceDefinition in the group example.dev, with a status subresource."""
    row = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "kind": kind, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [row]},
    }


def thing(name: str = "t", **more: Any) -> Object:
    return {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": name}, **more}
