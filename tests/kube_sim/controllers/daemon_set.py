"""DaemonSets: one pod on each node that it may run on, bound to the node by affinity as the real ones are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, hash_of, key_of, of_owner
from kube_sim.objects import Object, deleting, finished, is_true, labels, name, namespace, pod_of, uid
from kube_sim.scheduler import may_run

TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
KIND = "daemonsets.apps"


class DaemonSets(Controller):
    watches = (KIND, "pods", "nodes")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        if kind == "nodes":
            return [key_of(one) for one in self.cache.all(KIND)]
        return (key_of(obj),) if kind == KIND else of_owner("DaemonSet", obj)

    def reconcile(self, key: Key) -> None:
        owner = self.cache.get(KIND, *key)
        if owner is None or deleting(owner):
            return
        revision = hash_of(owner["spec"]["template"])
        on: dict[str, list[Object]] = {}
        for pod in self.cache.owned(uid(owner), "pods"):
            on.setdefault(_node_of(pod), []).append(pod)
        nodes = {name(one): one for one in self.cache.all("nodes")}
        wanted = {one for one, node in nodes.items() if self._fits(owner, node)}
        for node in sorted(wanted):
            there = on.get(node, [])
            if not there:
                self._make(owner, node, revision)
            for pod in there:
                if not deleting(pod) and (finished(pod) or self._outdated(owner, pod, revision)):
                    self.delete(pod)
        for node, pods in on.items():
            if node not in wanted and not (node in nodes and self._stays(owner, nodes[node])):
                for pod in pods:
                    if not deleting(pod):
                        self.delete(pod)
        self._report(owner, wanted)

    def _pod(self, owner: Object, node: str) -> Object:
        pod = pod_of(owner["spec"]["template"], f"{name(owner)}-{self.suffix()}", namespace(owner), owner)
        pod["spec"].setdefault("tolerations", []).extend(
            {"key": key, "operator": "Exists", "effect": effect} for key, effect in TOLERATED
        )
        pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})[
            "requiredDuringSchedulingIgnoredDuringExecution"
        ] = {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            ]
        }  # fmt: skip
        return pod

    def _fits(self, owner: Object, node: Object) -> bool:
        pod = self._pod(owner, name(node))
        terms = owner["spec"]["template"]["spec"].get("affinity")
        own = {**pod, "spec": {**pod["spec"], "affinity": terms}} if terms else pod
        return may_run(own, node)

    def _stays(self, owner: Object, node: Object) -> bool:
        """What runs already goes for NoExecute alone."""
        return may_run(self._pod(owner, name(node)), node, effects=("NoExecute",))

    def _make(self, owner: Object, node: str, revision: str) -> None:
        pod = self._pod(owner, node)
        pod["metadata"]["labels"]["controller-revision-hash"] = revision
        self.create(pod)

    @staticmethod
    def _outdated(owner: Object, pod: Object, revision: str) -> bool:
        on_delete = (owner["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"
        return not on_delete and labels(pod).get("controller-revision-hash") != revision

    def _report(self, owner: Object, wanted: set[str]) -> None:
        pods = [one for one in self.cache.owned(uid(owner), "pods") if not deleting(one)]

        def change(current: Object) -> None:
            ready = sum(is_true(one, "Ready") for one in pods)
            current["status"] = {
                "desiredNumberScheduled": len(wanted),
                "currentNumberScheduled": len(pods),
                "updatedNumberScheduled": len(pods),
                "numberReady": ready,
                "numberAvailable": ready,
                "numberMisscheduled": 0,
                "observedGeneration": owner["metadata"].get("generation", 1),
            }

        self.status(owner, change)


def _node_of(pod: Object) -> str:
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
