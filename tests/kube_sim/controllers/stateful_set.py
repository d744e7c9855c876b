"""StatefulSets: pods with stable names, of which a new one comes only after the old one is gone.

`ordinals.start`, OrderedReady and Parallel, RollingUpdate with a partition, OnDelete. Failed and Succeeded pods are
deleted and made anew. Claims of volumes are not made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, hash_of, key_of, of_owner
from kube_sim.objects import Object, deleting, finished, is_true, labels, name, namespace, pod_of, uid


class StatefulSets(Controller):
    watches = ("statefulsets.apps", "pods")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (key_of(obj),) if kind != "pods" else of_owner("StatefulSet", obj)

    def reconcile(self, key: Key) -> None:
        owner = self.cache.get("statefulsets.apps", *key)
        if owner is None or deleting(owner):
            return
        spec = owner["spec"]
        start = int((spec.get("ordinals") or {}).get("start", 0))
        wanted = range(start, start + int(spec.get("replicas", 1)))
        revision = f"{name(owner)}-{hash_of(spec['template'])}"
        pods = {_ordinal(one): one for one in self.cache.owned(uid(owner), "pods")}
        self._bring(owner, pods, wanted, revision, ordered=spec.get("podManagementPolicy") != "Parallel")
        self._report(owner, wanted, revision)

    def _bring(self, owner: Object, pods: dict[int, Object], wanted: range, revision: str, *, ordered: bool) -> None:
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                self._make(owner, ordinal, revision)
            elif finished(pod) and not deleting(pod):
                self.delete(pod)
            if ordered and (pod is None or deleting(pod) or finished(pod) or not is_true(pod, "Ready")):
                return
        surplus = sorted((one for one in pods if one not in wanted), reverse=True)
        for ordinal in surplus:
            if not deleting(pods[ordinal]):
                self.delete(pods[ordinal])
            if ordered:
                return
        if not surplus:
            self._update(owner, pods, wanted, revision)

    def _update(self, owner: Object, pods: dict[int, Object], wanted: range, revision: str) -> None:
        """One pod at a time, from the highest ordinal down to the partition."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        for ordinal in reversed(wanted):
            pod = pods.get(ordinal)
            if ordinal < partition or pod is None:
                return
            if labels(pod).get("controller-revision-hash") != revision:
                if not deleting(pod):
                    self.delete(pod)
                return
            if deleting(pod) or not is_true(pod, "Ready"):
                return

    def _make(self, owner: Object, ordinal: int, revision: str) -> None:
        pod = pod_of(owner["spec"]["template"], f"{name(owner)}-{ordinal}", namespace(owner), owner)
        pod["metadata"]["labels"] |= {
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": f"{name(owner)}-{ordinal}",
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        pod["spec"]["hostname"] = f"{name(owner)}-{ordinal}"
        if owner["spec"].get("serviceName"):
            pod["spec"].setdefault("subdomain", owner["spec"]["serviceName"])
        self.cluster.admit_pod(pod)
        self.create(pod)

    def _report(self, owner: Object, wanted: range, revision: str) -> None:
        pods = [one for one in self.cache.owned(uid(owner), "pods") if not finished(one)]
        fresh = [one for one in pods if labels(one).get("controller-revision-hash") == revision]

        def change(current: Object) -> None:
            ready = sum(is_true(one, "Ready") and not deleting(one) for one in pods)
            current["status"] = {
                **(current.get("status") or {}),
                "observedGeneration": owner["metadata"].get("generation", 1),
                "replicas": len(pods),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "updatedReplicas": len(fresh),
                "updateRevision": revision,
                "currentRevision": revision
                if len(fresh) == len(wanted)
                else (current.get("status") or {}).get("currentRevision", revision),
            }

        self.status(owner, change)


def _ordinal(pod: Object) -> int:
    return int(name(pod).rsplit("-", 1)[1])
