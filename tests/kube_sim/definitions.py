"""CustomResourceDefinitions: what is created of them becomes a resource of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_sim.history import Change
from kube_sim.kinds import KindInfo
from kube_sim.values import stamp

if TYPE_CHECKING:
    from kube_sim.store import Store

KEY = "customresourcedefinitions.apiextensions.k8s.io"


def keep_definitions(store: Store) -> None:
    """From now on, at each change; those that are there already too."""

    def look(change: Change) -> None:
        info = kind_of(change.after)
        if change.kind == "DELETED":
            store.forget(info.key)
            return
        store.know(info)
        if not (change.after.get("status") or {}).get("conditions"):
            _establish(store, change.after)

    for one in store.list(KEY):
        store.know(kind_of(one))
    store.follow(KEY, look)


def kind_of(definition: dict[str, Any]) -> KindInfo:
    """The resource that it makes; unserved versions are left out."""
    spec = definition["spec"]
    names, versions = spec["names"], spec["versions"]
    served = [one for one in versions if one.get("served")]
    stored = next((one["name"] for one in versions if one.get("storage")), versions[0]["name"])
    parts = [one.get("subresources") or {} for one in served]
    return KindInfo(
        spec["group"],
        stored,
        names["plural"],
        names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        status=any("status" in one for one in parts),
        counted=True,
        custom=True,
        short=tuple(names.get("shortNames") or ()),
        schemas={one["name"]: (one.get("schema") or {}).get("openAPIV3Schema") for one in served},
        scale=any("scale" in one for one in parts),
    )


def _establish(store: Store, definition: dict[str, Any]) -> None:
    now = stamp(store.clock())
    spec, name = definition["spec"], definition["metadata"]["name"]
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [one["name"] for one in spec["versions"] if one.get("storage")]
    status = {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
    store.patch(KEY, None, name, {"status": status}, subresource="status")
