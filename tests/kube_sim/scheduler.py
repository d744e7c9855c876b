"""The scheduler: a pod gets the first fitting node of a sample, the one with the most free GPUs.

Filters: unschedulable, taints, nodeSelector, required node affinity, GPUs. Not there: preferences, preemption, other
resources, affinity between pods, topology spread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kube_sim.controllers.base import Controller
from kube_sim.objects import (
    GPU,
    Object,
    condition,
    deleting,
    finished,
    fits_expression,
    gpus,
    labels,
    name,
    namespace,
    set_condition,
    tolerates,
)

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

SAMPLE = 50
"""Fitting nodes that are compared: with thousands of nodes nobody looks at all of them for each pod."""


class Scheduler(Controller):
    watches = ("pods", "nodes")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._waiting: dict[tuple[str | None, str], None] = {}
        self._from = 0
        self._nodes: list[Object] | None = None

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        if kind == "nodes":
            self._nodes = None
            return list(self._waiting)
        if type_ == "DELETED" or finished(obj):
            self._waiting.pop((namespace(obj), name(obj)), None)
            return list(self._waiting) if obj["spec"].get("nodeName") else ()
        return () if obj["spec"].get("nodeName") else ((namespace(obj), name(obj)),)

    def reconcile(self, key: tuple[str | None, str]) -> None:
        self._waiting.pop(key, None)
        pod = self.cache.get("pods", *key)
        if pod is None or pod["spec"].get("nodeName") or deleting(pod) or finished(pod):
            return
        if pod["spec"].get("schedulingGates"):
            self._told(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
            return
        node = self._choose(pod)
        if node is None:
            self._waiting[key] = None
            self._told(pod, "Unschedulable", self._why_not(pod))
            return

        def bind(current: Object) -> bool | None:
            if current["spec"].get("nodeName"):
                return False
            current["spec"]["nodeName"] = name(node)
            return None

        bound = self.edit(pod, bind)
        if bound is not None:
            self.status(bound, lambda current: set_condition(current, "PodScheduled", True, self.now))

    def _told(self, pod: Object, reason: str, message: str) -> None:
        found = condition(pod, "PodScheduled")
        if found is None or (found.get("reason"), found.get("message")) != (reason, message):
            self.status(pod, lambda current: set_condition(current, "PodScheduled", False, self.now, reason, message))

    def _choose(self, pod: Object) -> Object | None:
        if self._nodes is None:
            self._nodes = sorted(self.cache.all("nodes"), key=name)
        nodes = self._nodes
        wanted = gpus(pod)
        best, most, seen = None, -1, 0
        for step in range(len(nodes)):
            node = nodes[(self._from + step) % len(nodes)]
            free = free_gpus(node) - self.cache.gpus_taken(name(node))
            if free >= wanted and may_run(pod, node):
                seen += 1
                if free > most:
                    best, most = node, free
                if seen >= SAMPLE:
                    self._from = (self._from + step + 1) % len(nodes)
                    break
        return best

    def _why_not(self, pod: Object) -> str:
        nodes = self.cache.all("nodes")
        not_fit = sum(not may_run(pod, one) for one in nodes)
        return (
            f"0/{len(nodes)} nodes are available: {not_fit} node(s) didn't match taints, selector or affinity, "
            f"{len(nodes) - not_fit} Insufficient {GPU}."
        )


def free_gpus(node: Object) -> int:
    """Allocatable, before what pods take."""
    return int(((node.get("status") or {}).get("allocatable") or {}).get(GPU, 0))


def may_run(pod: Object, node: Object, *, effects: tuple[str, ...] = ("NoSchedule", "NoExecute")) -> bool:
    """Whether everything but resources lets the pod onto the node."""
    spec, of_node = pod["spec"], node.get("spec") or {}
    taints = list(of_node.get("taints") or [])
    if of_node.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if any(one.get("effect") in effects and tolerates(pod, one) is None for one in taints):
        return False
    has = labels(node)
    if any(has.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    return not terms or any(_term(one, node) for one in terms)


def _term(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(fits_expression(one, labels(node)) for one in expressions) and all(
        fits_expression(one, {"metadata.name": name(node)}) for one in fields
    )
