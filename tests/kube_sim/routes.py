"""Paths of the API, taken apart: which resource, which object, which part of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kube_sim.kinds import KindInfo


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. `version`: the one that it speaks. `namespace` None: all, or there is none."""

    info: KindInfo
    version: str
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""

    @property
    def api_version(self) -> str:
        return self.info.api_version(self.version)


def target_of(path: str, kinds: Iterable[KindInfo]) -> Target | None:
    """None where no resource is meant, or one that is not there."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"]:
        group, rest = "", parts[1:]
    elif parts[:1] == ["apis"] and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return None
    if len(rest) < 2:
        return None
    version, rest = rest[0], rest[1:]
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    for info in kinds:
        if info.group == group and version in info.versions and info.plural == rest[0]:
            if namespace is not None and not info.namespaced:
                return None
            name = rest[1] if len(rest) > 1 else None
            if info.namespaced and name is not None and namespace is None:
                return None
            return Target(info, version, namespace, name, rest[2] if len(rest) > 2 else "")
    return None


def verb_of(method: str, named: bool, watch: bool) -> str:
    """As RBAC names it."""
    if method in ("GET", "HEAD"):
        return "get" if named else "watch" if watch else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())
