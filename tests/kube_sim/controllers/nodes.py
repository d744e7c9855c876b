"""Nodes that are lost: told by their missing heartbeats, tainted, their pods not ready and in the end evicted.

Two controllers of Kubernetes: the node lifecycle's, and taint eviction. A kubelet that is dead removes no pod: what is
evicted from it stays Terminating until the node is back or gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kube_sim.controllers.base import Controller, Key
from kube_sim.node_objects import lost
from kube_sim.objects import (
    Object,
    deleting,
    finished,
    is_true,
    name,
    namespace,
    set_condition,
    stamp,
    tolerates,
    uid,
    unix,
)

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

GRACE = 40.0
"""Seconds without a heartbeat until a node counts as lost (kube-controller-manager, node-monitor-grace-period)."""

DEFAULT_SECONDS = 300
"""What the admission plugin DefaultTolerationSeconds gives pods for the two taints of lost nodes."""

LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class NodeLifecycle(Controller):
    """Keys are nodes. Heartbeats are not written: the kubelet is asked since when it has been silent."""

    watches = ("nodes",)

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (name(obj),)

    def silent(self, node: str) -> None:
        """Called where a kubelet has fallen silent."""
        self.work.add_after(GRACE, self, node)

    def reconcile(self, key: str) -> None:
        node = self.cache.get("nodes", None, key)
        if node is None:
            self._orphans(key)
            return
        since = self.cluster.kubelet.silent_since(key)
        if since is not None and self.now - since >= GRACE:
            self.status(node, lambda current: lost(current, self.now) if is_true(current, "Ready") else None)
            self._taint(node, LOST[1])
            for pod in self.cache.on_node(key):
                if is_true(pod, "Ready"):
                    self.status(pod, lambda current: set_condition(current, "Ready", False, self.now, "NodeNotReady"))
        elif is_true(node, "Ready"):
            self._taint(node, None)
        else:
            self._taint(node, LOST[0])

    def _taint(self, node: Object, key: str | None) -> None:
        def change(current: Object) -> bool | None:
            taints = (current.get("spec") or {}).get("taints") or []
            kept = [one for one in taints if one["key"] not in LOST]
            if {one["key"] for one in taints if one["key"] in LOST} == ({key} if key else set()):
                return False
            added = []
            if key:
                added = [
                    {"key": key, "effect": one, "timeAdded": stamp(self.now)} for one in ("NoSchedule", "NoExecute")
                ]
            current.setdefault("spec", {})["taints"] = [*kept, *added]
            return None

        self.edit(node, change)

    def _orphans(self, node: str) -> None:
        """The pod garbage collector: pods of a node that is no more are removed by force."""
        for pod in self.cache.on_node(node):
            self.delete(pod, grace=0)


class TaintEviction(Controller):
    watches = ("pods", "nodes")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._seen: dict[tuple[str, str, str], float] = {}

    def _first_seen(self, node: str, taint: Object) -> float:
        """Of a taint without a time."""
        return self._seen.setdefault((node, taint["key"], taint.get("value") or ""), self.now)

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        if kind == "nodes":
            if _evicting(obj) or (before is not None and _evicting(before)):
                return [(namespace(one), name(one)) for one in self.cache.on_node(name(obj))]
            return ()
        return ((namespace(obj), name(obj)),) if type_ == "ADDED" or _bound(obj, before) else ()

    def reconcile(self, key: Key) -> None:
        pod = self.cache.get("pods", *key)
        node = self.cache.get("nodes", None, pod["spec"].get("nodeName") or "") if pod else None
        if pod is None or node is None or deleting(pod) or finished(pod):
            return
        soonest: float | None = None
        for taint in _evicting(node):
            seconds = _tolerated(pod, taint)
            if seconds is None:
                continue
            since = unix(taint["timeAdded"]) if taint.get("timeAdded") else self._first_seen(uid(node), taint)
            soonest = min(since + seconds, soonest if soonest is not None else float("inf"))
        if soonest is None:
            return
        if soonest > self.now:
            self.work.add_after(soonest - self.now, self, key)
            return
        told = self.status(
            pod,
            lambda current: set_condition(
                current,
                "DisruptionTarget",
                True,
                self.now,
                "DeletionByTaintManager",
                "Taint manager: deleting due to NoExecute taint",
            ),
        )
        if told is not None and uid(told) == uid(pod):
            self.delete(pod)


def _evicting(node: Object) -> list[Object]:
    return [one for one in (node.get("spec") or {}).get("taints") or [] if one.get("effect") == "NoExecute"]


def _bound(pod: Object, before: Object | None) -> bool:
    return bool(pod["spec"].get("nodeName")) and not (before or {"spec": {}})["spec"].get("nodeName")


def _tolerated(pod: Object, taint: Object) -> float | None:
    """Seconds; None: for ever."""
    found = tolerates(pod, taint)
    if found is None:
        return DEFAULT_SECONDS if taint["key"] in LOST else 0.0
    seconds = found.get("tolerationSeconds")
    return None if seconds is None else max(0.0, float(seconds))
