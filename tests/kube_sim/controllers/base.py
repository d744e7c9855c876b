"""What controllers have in common: keys that changes lead to, and writes that bear being late.

As in Kubernetes they are level-triggered: a key says where to look, never what has happened.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kube_sim.objects import Object, name, namespace, plural, stamp, uid
from kube_sim.problems import ApiProblem

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

Key = tuple["str | None", str]
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Controller:
    """One loop. `watches`: whose changes it wants to hear of."""

    watches: tuple[str, ...] = ()

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.cache, self.store, self.work = cluster, cluster.cache, cluster.store, cluster.work

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        """Which keys a change leads to."""
        raise NotImplementedError

    def reconcile(self, key: Any) -> None:
        raise NotImplementedError

    @property
    def now(self) -> float:
        return self.cluster.clock()

    def create(self, obj: Object) -> Object | None:
        """None where one has that name already, or its namespace is going away."""
        try:
            return self._written(self.store.create(obj, user=self.user))
        except ApiProblem as problem:
            if problem.status in (403, 409):
                return None
            raise

    def _written(self, obj: Object) -> Object:
        self.cluster.caught_up(int(obj["metadata"]["resourceVersion"]))
        return obj

    def edit(
        self, obj: Object, change: Callable[[Object], bool | None], subresource: str | None = None
    ) -> Object | None:
        """Reads, changes and writes until nobody comes between; None where it is gone or another one. `change` returns
        False where nothing has to be written."""
        kind, space, its_name = plural(obj), namespace(obj), name(obj)
        while True:
            try:
                current = self.store.get(kind, space, its_name)
                if uid(current) != uid(obj):
                    return None
                if change(current) is False:
                    return current
                return self._written(self.store.update(current, subresource=subresource, user=self.user))
            except ApiProblem as problem:
                if problem.status == 404:
                    return None
                if problem.status != 409:
                    raise

    def status(self, obj: Object, change: Callable[[Object], Any]) -> Object | None:
        """The same of its status, written only where it differs."""

        def differs(current: Object) -> bool:
            before = copy.deepcopy(current.get("status"))
            change(current)
            return bool(current.get("status") != before)

        return self.edit(obj, differs, "status")

    def delete(self, obj: Object, propagation: str = "Background", grace: int | None = None) -> None:
        """Bound to its UID; one that is gone is gone."""
        try:
            self._written(
                self.store.delete(
                    plural(obj), namespace(obj), name(obj), uid=uid(obj), propagation=propagation, grace=grace
                )
            )
        except ApiProblem as problem:
            if problem.status not in (404, 409):
                raise

    def event(self, obj: Object, reason: str, message: str, type_: str = "Normal") -> None:
        """As recorders write them (v1)."""
        at = stamp(self.now)
        self.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{name(obj)}.{self.suffix()}{self.suffix()}",
                    "namespace": namespace(obj) or "default",
                },
                "involvedObject": {
                    "apiVersion": obj["apiVersion"],
                    "kind": obj["kind"],
                    "namespace": namespace(obj),
                    "name": name(obj),
                    "uid": uid(obj),
                },
                "reason": reason,
                "message": message,
                "type": type_,
                "source": {"component": self.user},
                "firstTimestamp": at,
                "lastTimestamp": at,
                "count": 1,
            }
        )

    @property
    def user(self) -> str:
        """As it is called in events and audits."""
        return "system:" + type(self).__name__

    def suffix(self) -> str:
        """Five letters, as Kubernetes makes names unique."""
        random_: random.Random = self.cluster.random
        return "".join(random_.choices(LETTERS, k=5))


def hash_of(value: Any, length: int = 10) -> str:
    """Of a template: another template, another hash."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:length]


def of_owner(kind: str, obj: Object) -> list[Key]:
    """The controller of an object, where it is of that kind."""
    return [
        (namespace(obj), one["name"])
        for one in obj["metadata"].get("ownerReferences") or []
        if one.get("controller") and one["kind"] == kind
    ]


def key_of(obj: Object) -> Key:
    return namespace(obj), name(obj)
