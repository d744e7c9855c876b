"""What the server says that it has: plain and aggregated discovery, its version, and as much of an OpenAPI document as
kubectl asks for before it applies something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_sim.kinds import KindInfo
from kube_sim.problems import no_such_path
from kube_sim.shapes import RELEASE

Body = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_OF_PODS = (
    ("eviction", "Eviction", "policy", ["create"]),
    ("binding", "Binding", "", ["create"]),
    ("log", "Pod", "", ["get"]),
    ("exec", "PodExecOptions", "", ["create", "get"]),
    ("ephemeralcontainers", "Pod", "", ["get", "patch", "update"]),
)


def version() -> Body:
    """/version."""
    major, minor, _ = RELEASE.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": RELEASE,
        "gitCommit": "simulated",
        "gitTreeState": "clean",
        "buildDate": "2024-12-11T00:00:00Z",
        "goVersion": "go1.23",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def answer(path: str, kinds: Sequence[KindInfo], accept: str) -> tuple[Body, str]:
    """(body, content type) of a path under /api, /apis and /openapi. Raises ApiProblem 404."""
    plain = "application/json"
    parts = [part for part in path.split("/") if part]
    if parts in (["api"], ["apis"]):
        core = parts == ["api"]
        if "as=APIGroupDiscoveryList" in accept and "v=v2;" in accept.replace(",", ";"):
            return _aggregated(kinds, core), AGGREGATED
        if core:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, plain
        groups = sorted({info.group for info in kinds if info.group})
        listed = [_group(one, kinds) for one in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}, plain
    if parts[:1] == ["apis"] and len(parts) == 2 and any(info.group == parts[1] for info in kinds):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], kinds)}, plain
    if parts[:1] == ["api"] and len(parts) == 2:
        return _resources("", parts[1], kinds), plain
    if parts[:1] == ["apis"] and len(parts) == 3:
        return _resources(parts[1], parts[2], kinds), plain
    if parts[:2] == ["openapi", "v3"]:
        return _openapi(parts[2:], kinds), plain
    raise no_such_path()


def _versions(group: str, kinds: Sequence[KindInfo]) -> list[str]:
    found = {version for info in kinds if info.group == group for version in info.versions}
    return sorted(found, key=lambda one: ("alpha" in one, "beta" in one, [-int(n) for n in one[1:] if n.isdigit()]))


def _group(group: str, kinds: Sequence[KindInfo]) -> Body:
    versions = [{"groupVersion": f"{group}/{one}", "version": one} for one in _versions(group, kinds)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _of(group: str, version: str, kinds: Sequence[KindInfo]) -> list[KindInfo]:
    found = [info for info in kinds if info.group == group and version in info.versions]
    if not found:
        raise no_such_path()
    return found


def _subresources(info: KindInfo) -> list[tuple[str, str, str, list[str]]]:
    """(name, kind, group of it, verbs)."""
    found = [("status", info.kind, info.group, ["get", "patch", "update"])] if info.status else []
    if info.scale:
        found.append(("scale", "Scale", "autoscaling", ["get", "patch", "update"]))
    if info.key == "pods":
        found += [(name, kind, group, list(verbs)) for name, kind, group, verbs in _OF_PODS]
    return found


def _resources(group: str, version: str, kinds: Sequence[KindInfo]) -> Body:
    rows: list[Body] = []
    for info in _of(group, version, kinds):
        rows.append(
            {
                "name": info.plural,
                "singularName": info.singular,
                "namespaced": info.namespaced,
                "kind": info.kind,
                "verbs": _VERBS,
                **({"shortNames": list(info.short)} if info.short else {}),
            }
        )
        for name, kind, of_group, verbs in _subresources(info):
            row = {"name": f"{info.plural}/{name}", "singularName": "", "namespaced": info.namespaced, "kind": kind}
            rows.append({**row, **({"group": of_group, "version": "v1"} if of_group != group else {}), "verbs": verbs})
    whole = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": whole, "resources": rows}


def _aggregated(kinds: Sequence[KindInfo], core: bool) -> Body:
    items = []
    for group in [""] if core else sorted({info.group for info in kinds if info.group}):
        versions = []
        for version in _versions(group, kinds):
            resources = [_aggregated_row(info, version) for info in _of(group, version, kinds)]
            versions.append({"version": version, "resources": resources, "freshness": "Current"})
        items.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_row(info: KindInfo, version: str) -> Body:
    below = [
        {
            "subresource": name,
            "responseKind": {"group": group, "version": version if group == info.group else "v1", "kind": kind},
            "verbs": verbs,
        }
        for name, kind, group, verbs in _subresources(info)
    ]
    return {
        "resource": info.plural,
        "responseKind": {"group": info.group, "version": version, "kind": info.kind},
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": _VERBS,
        **({"shortNames": list(info.short)} if info.short else {}),
        **({"subresources": below} if below else {}),
    }


def _openapi(parts: Sequence[str], kinds: Sequence[KindInfo]) -> Body:
    if not parts:
        pairs = sorted({(info.group, version) for info in kinds for version in info.versions})
        names = [f"apis/{group}/{version}" if group else f"api/{version}" for group, version in pairs]
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=1"} for name in names}}
    group, version = (parts[1], parts[2]) if parts[0] == "apis" and len(parts) == 3 else ("", parts[-1])
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    words = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": one, "in": "query", "schema": {"type": "string"}} for one in words]
    paths = {}
    for info in _of(group, version, kinds):
        within = "/namespaces/{namespace}" if info.namespaced else ""
        what = {"group": group, "version": version, "kind": info.kind}
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": what, "parameters": parameters}
        patch["responses"] = {"200": {"description": "OK"}}
        paths[f"{root}{within}/{info.plural}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": RELEASE}, "paths": paths, "components": {}}
