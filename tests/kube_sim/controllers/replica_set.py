"""ReplicaSets: so many active pods, with names that come once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, key_of, of_owner
from kube_sim.objects import Object, active, deleting, is_true, name, namespace, phase, pod_of, uid


class ReplicaSets(Controller):
    watches = ("replicasets.apps", "pods")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (key_of(obj),) if kind != "pods" else of_owner("ReplicaSet", obj)

    def reconcile(self, key: Key) -> None:
        owner = self.cache.get("replicasets.apps", *key)
        if owner is None or deleting(owner):
            return
        pods = [one for one in self.cache.owned(uid(owner), "pods") if active(one)]
        wanted = int(owner["spec"].get("replicas", 1))
        for _ in range(wanted - len(pods)):
            pod = pod_of(owner["spec"]["template"], f"{name(owner)}-{self.suffix()}", namespace(owner), owner)
            self.cluster.admit_pod(pod)
            self.create(pod)
        surplus = sorted(pods, key=_worth)[: max(0, len(pods) - wanted)]
        for pod in surplus:
            self.delete(pod)
        kept = [one for one in self.cache.owned(uid(owner), "pods") if active(one)]

        def change(current: Object) -> None:
            ready = sum(is_true(one, "Ready") for one in kept)
            current["status"] = {
                "replicas": len(kept),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "observedGeneration": owner["metadata"].get("generation", 1),
            }

        self.status(owner, change)


def _worth(pod: Object) -> tuple[Any, ...]:
    """Those that go first: not bound, not running, not ready, youngest."""
    return (
        bool(pod["spec"].get("nodeName")),
        phase(pod) == "Running",
        is_true(pod, "Ready"),
        [-ord(one) for one in pod["metadata"]["creationTimestamp"]],
    )
