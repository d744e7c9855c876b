"""All objects of a store, with the ways to find them that controllers need: by UID, by owner, by node.

Kept by the store's own changes as they happen, so that what a controller has just written is there. What it returns
is shared: it is read, never written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.objects import Object, gpus, meta, name, namespace, phase, uid

Place = tuple[str, "str | None", str]
"""The store's key of a kind, a namespace, a name."""


class Cache:
    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str | None, str], Object]] = {}
        self._by_uid: dict[str, Place] = {}
        self._dependents: dict[str, dict[str, Place]] = {}
        self._on_node: dict[str, dict[str, Place]] = {}
        self._gpus: dict[str, int] = {}

    def changed(self, kind: str, type_: str, obj: Object) -> Object | None:
        """Takes a change in; the object as it was before, None where it was not there."""
        place = (kind, namespace(obj), name(obj))
        objects = self._objects.setdefault(kind, {})
        before = objects.pop(place[1:], None)
        if before is not None:
            self._forget(kind, before)
        if type_ != "DELETED":
            objects[place[1:]] = obj
            self._keep(place, obj)
        return before

    def _keep(self, place: Place, obj: Object) -> None:
        self._by_uid[uid(obj)] = place
        for one in meta(obj).get("ownerReferences") or []:
            self._dependents.setdefault(one["uid"], {})[uid(obj)] = place
        if place[0] == "pods" and (node := obj["spec"].get("nodeName")):
            self._on_node.setdefault(node, {})[uid(obj)] = place
            self._gpus[node] = self._gpus.get(node, 0) + self._takes(obj)

    def _forget(self, kind: str, obj: Object) -> None:
        self._by_uid.pop(uid(obj), None)
        for one in meta(obj).get("ownerReferences") or []:
            those = self._dependents.get(one["uid"], {})
            those.pop(uid(obj), None)
            if not those:
                self._dependents.pop(one["uid"], None)
        if kind == "pods" and (node := obj["spec"].get("nodeName")):
            self._on_node.get(node, {}).pop(uid(obj), None)
            self._gpus[node] = self._gpus.get(node, 0) - self._takes(obj)

    @staticmethod
    def _takes(pod: Object) -> int:
        return 0 if phase(pod) in ("Succeeded", "Failed") else gpus(pod)

    def get(self, kind: str, space: str | None, its_name: str) -> Object | None:
        return self._objects.get(kind, {}).get((space, its_name))

    def all(self, kind: str, space: str | None = None) -> list[Object]:
        """In the order in which they last changed; `space` None: of all namespaces."""
        found = list(self._objects.get(kind, {}).items())
        return [obj for (where, _), obj in found if space is None or where == space]

    def by_uid(self, its_uid: str) -> Object | None:
        place = self._by_uid.get(its_uid)
        return self.get(*place) if place else None

    def owned(self, owner_uid: str, kind: str | None = None) -> list[Object]:
        """Those with an owner reference to it, by name."""
        return self._resolve(self._dependents.get(owner_uid, {}), kind)

    def on_node(self, node: str) -> list[Object]:
        return self._resolve(self._on_node.get(node, {}), None)

    def gpus_taken(self, node: str) -> int:
        return self._gpus.get(node, 0)

    def _resolve(self, places: dict[str, Any], kind: str | None) -> list[Object]:
        found: Iterable[Object | None] = [self.get(*one) for one in list(places.values()) if kind in (None, one[0])]
        return sorted((one for one in found if one is not None), key=name)
