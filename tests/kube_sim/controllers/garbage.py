"""Garbage collection: dependents go with their owners, in the background or before them (foreground), or stay (orphan).

Follows pkg/controller/garbagecollector: an owner in foreground deletion waits for those dependents whose reference
has `blockOwnerDeletion`; a dependent that has dependents of its own goes in the foreground as well; one with another
owner that stays only loses its reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller
from kube_sim.objects import Object, deleting, meta, uid
from kube_sim.problems import ApiProblem

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    """Keys are UIDs: of objects that may have to go, and of owners in deletion."""

    watches = ("*",)

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        found = [one["uid"] for one in meta(obj).get("ownerReferences") or []]
        if type_ == "DELETED":
            return [*found, *(uid(one) for one in self.cache.owned(uid(obj)))]
        if deleting(obj) and meta(obj).get("finalizers"):
            return [uid(obj)]
        return [uid(obj)] if found and type_ == "ADDED" else ()

    def reconcile(self, key: str) -> None:
        obj = self.cache.by_uid(key)
        if obj is None:
            return
        finalizers = meta(obj).get("finalizers") or []
        if deleting(obj) and FOREGROUND in finalizers:
            self._foreground(obj)
        elif deleting(obj) and ORPHAN in finalizers:
            for one in self.cache.owned(key):
                self._lose(one, {key})
            self._finalized(obj, ORPHAN)
        elif not deleting(obj):
            self._collect(obj)

    def _foreground(self, obj: Object) -> None:
        dependents = self.cache.owned(uid(obj))
        if not any(_blocks(one, uid(obj)) for one in dependents):
            self._finalized(obj, FOREGROUND)
        for one in dependents:
            if not deleting(one):
                self._collect(one)

    def _collect(self, obj: Object) -> None:
        """attemptToDeleteItem."""
        references = meta(obj).get("ownerReferences") or []
        solid, gone, waiting = [], set(), []
        for one in references:
            owner = self.cache.by_uid(one["uid"])
            if owner is None and not self._known(one):
                solid.append(one)
            elif owner is None:
                gone.add(one["uid"])
            elif deleting(owner) and FOREGROUND in (meta(owner).get("finalizers") or []):
                waiting.append(one)
            else:
                solid.append(one)
        if not references:
            return
        if solid:
            if gone or waiting:
                self._lose(obj, gone | {one["uid"] for one in waiting})
        elif waiting:
            self.delete(obj, "Foreground" if self.cache.owned(uid(obj)) else "Background")
        else:
            self.delete(obj)

    def _known(self, reference: Object) -> bool:
        """Whether objects of the owner's kind are seen at all."""
        try:
            self.store.kind_of(reference)
        except ApiProblem:
            return False
        return True

    def _lose(self, obj: Object, owners: set[str]) -> None:
        def without(current: Object) -> None:
            metadata = current["metadata"]
            metadata["ownerReferences"] = [
                one for one in metadata.get("ownerReferences") or [] if one["uid"] not in owners
            ]

        self.edit(obj, without)

    def _finalized(self, obj: Object, finalizer: str) -> None:
        def without(current: Object) -> bool | None:
            there = current["metadata"].get("finalizers") or []
            if finalizer not in there:
                return False
            current["metadata"]["finalizers"] = [one for one in there if one != finalizer]
            return None

        self.edit(obj, without)


def _blocks(obj: Object, owner: str) -> bool:
    return any(one["uid"] == owner and one.get("blockOwnerDeletion") for one in meta(obj).get("ownerReferences") or [])
