"""Deployments: one ReplicaSet a template; Recreate, and RollingUpdate with its surge and its unavailable."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, hash_of, key_of, of_owner
from kube_sim.objects import Object, deleting, labels, name, namespace, owned_by, set_condition, uid

HASH = "pod-template-hash"


class Deployments(Controller):
    watches = ("deployments.apps", "replicasets.apps")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (key_of(obj),) if kind == "deployments.apps" else of_owner("Deployment", obj)

    def reconcile(self, key: Key) -> None:
        owner = self.cache.get("deployments.apps", *key)
        if owner is None or deleting(owner):
            return
        wanted = int(owner["spec"].get("replicas", 1))
        sets = self.cache.owned(uid(owner), "replicasets.apps")
        its_hash = hash_of(owner["spec"]["template"])
        fresh = next((one for one in sets if labels(one).get(HASH) == its_hash), None)
        old = [one for one in sets if one is not fresh and _size(one) > 0]
        if (owner["spec"].get("strategy") or {}).get("type") == "Recreate":
            for one in old:
                self._scale(one, 0)
            left = any(self.cache.owned(uid(one), "pods") for one in sets if one is not fresh)
            target = 0 if old or left else wanted
        else:
            target = self._roll(owner, fresh, old, wanted)
        if fresh is None:
            self._make(owner, its_hash, target)
        elif _size(fresh) != target:
            self._scale(fresh, target)
        self._report(owner, its_hash, wanted)

    def _roll(self, owner: Object, fresh: Object | None, old: list[Object], wanted: int) -> int:
        """Scales the old down as far as availability allows; the new one's size now."""
        rolling = (owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
        unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        if surge == unavailable == 0:
            unavailable = 1
        has = _size(fresh) if fresh else 0
        if not old:
            return wanted
        least, total = wanted - unavailable, has + sum(_size(one) for one in old)
        if has < wanted and total < wanted + surge:
            return min(wanted, has + wanted + surge - total)
        available = sum(_available(one) for one in old) + (_available(fresh) if fresh else 0)
        fresh_unavailable = has - (_available(fresh) if fresh else 0)
        may_go = min(total - least - fresh_unavailable, available - least)
        for one in old:
            going = min(_size(one), max(0, may_go))
            if going:
                self._scale(one, _size(one) - going)
                may_go -= going
        return has

    def _make(self, owner: Object, its_hash: str, size: int) -> None:
        template = copy.deepcopy(owner["spec"]["template"])
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = its_hash
        selector = copy.deepcopy(owner["spec"].get("selector") or {})
        selector.setdefault("matchLabels", {})[HASH] = its_hash
        self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{name(owner)}-{its_hash}",
                    "namespace": namespace(owner),
                    "labels": dict(template["metadata"]["labels"]),
                    "ownerReferences": [owned_by(owner)],
                },
                "spec": {"replicas": size, "selector": selector, "template": template},
            }
        )

    def _scale(self, one: Object, size: int) -> None:
        def change(current: Object) -> bool | None:
            if current["spec"].get("replicas") == size:
                return False
            current["spec"]["replicas"] = size
            return None

        self.edit(one, change)

    def _report(self, owner: Object, its_hash: str, wanted: int) -> None:
        sets = self.cache.owned(uid(owner), "replicasets.apps")

        def total(field: str, *, fresh: bool = False) -> int:
            return sum(
                int((one.get("status") or {}).get(field, 0))
                for one in sets
                if not fresh or labels(one).get(HASH) == its_hash
            )

        def change(current: Object) -> None:
            available = total("availableReplicas")
            current.setdefault("status", {}).update(
                replicas=total("replicas"),
                readyReplicas=total("readyReplicas"),
                availableReplicas=available,
                unavailableReplicas=max(0, wanted - available),
                updatedReplicas=total("replicas", fresh=True),
                observedGeneration=owner["metadata"].get("generation", 1),
            )
            enough = available >= wanted
            set_condition(
                current,
                "Available",
                enough,
                self.now,
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            )
            set_condition(
                current, "Progressing", True, self.now, "NewReplicaSetAvailable" if enough else "ReplicaSetUpdated"
            )

        self.status(owner, change)


def _size(one: Object) -> int:
    return int(one["spec"].get("replicas", 1))


def _available(one: Object) -> int:
    return int((one.get("status") or {}).get("availableReplicas", 0))


def _share(given: Any, of: int, *, up: bool) -> int:
    if isinstance(given, str) and given.endswith("%"):
        exact = int(given[:-1]) * of / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(given)
