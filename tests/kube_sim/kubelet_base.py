"""What kubelets have in common, whether their containers are processes or settings: nodes, and the end of pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kube_sim import pod_status
from kube_sim.controllers.base import Controller, Key
from kube_sim.controllers.nodes import NodeLifecycle
from kube_sim.node_objects import Addresses, node_object, ready
from kube_sim.objects import Object, deleting, finished, gpus, name, namespace, set_condition, stamp, uid
from kube_sim.scheduler import free_gpus

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster


class Kubelet(Controller):
    """All nodes' kubelets in one. Keys are pods."""

    watches = ("pods",)
    real = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.addresses = Addresses(real=self.real)
        self._silent: dict[str, float] = {}

    # -- nodes

    def join(
        self,
        node: str,
        count: int,
        labels: Mapping[str, str],
        taints: Sequence[Mapping[str, str]],
        annotations: Mapping[str, str],
    ) -> Object:
        made = self.create(node_object(node, count, labels, taints, annotations, self.addresses.node(node), self.now))
        assert made is not None, f"node {node} is there already"
        return made

    def silent_since(self, node: str) -> float | None:
        return self._silent.get(node)

    def fail(self, node: str) -> None:
        self._silent.setdefault(node, self.now)
        for one in self.cluster.controllers:
            if isinstance(one, NodeLifecycle):
                one.silent(node)

    def revive(self, node: str) -> None:
        """It has booted: what ran is gone, and pods that are still bound to it are started anew."""
        self._silent.pop(node, None)
        obj = self.cache.get("nodes", None, node)
        if obj is not None:
            self.status(obj, lambda current: ready(current, self.now))
        for pod in self.cache.on_node(node):
            self.work.add(self, (namespace(pod), name(pod)))

    def close(self) -> None:
        """Ends whatever was started."""

    # -- pods

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return ((namespace(obj), name(obj)),)

    def reconcile(self, key: Key) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None:
            self.forget(key)
            return
        node = pod["spec"].get("nodeName")
        if not node:
            if deleting(pod):
                self.gone(pod)
            return
        if node not in self._silent and self.cache.get("nodes", None, node) is not None:
            self.sync(key, pod)

    def sync(self, key: Key, pod: Object) -> None:
        raise NotImplementedError

    def forget(self, key: Key) -> None:
        raise NotImplementedError

    def admit(self, pod: Object) -> bool:
        """As a kubelet admits a pod to its node: where GPUs are not enough it has failed."""
        node = self.cache.get("nodes", None, pod["spec"]["nodeName"])
        assert node is not None
        if self.cache.gpus_taken(name(node)) <= free_gpus(node) or not gpus(pod) or finished(pod):
            return True

        def change(current: Object) -> None:
            current["status"] = {
                **(current.get("status") or {}),
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "message": "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
                "nvidia.com/gpu, which is unexpected",
            }

        self.status(pod, change)
        return False

    def gates(self, pod: Object) -> None:
        """Ready follows the readiness gates, which others set."""
        if (pod.get("status") or {}).get("containerStatuses"):
            self.status(pod, lambda current: pod_status.conditions(current, self.now))

    def gone(self, pod: Object) -> None:
        """Its containers have ended: the object goes as well."""
        self.delete(pod, grace=0)

    def evict(
        self, space: str, its_name: str, reason: str = "Evicted", message: str = "The node was low on memory."
    ) -> None:
        """By the kubelet itself (memory or disk pressure): the pod has failed and stays."""
        pod = self.cache.get("pods", space, its_name)
        assert pod is not None
        self.status(
            pod, lambda current: set_condition(current, "DisruptionTarget", True, self.now, "TerminationByKubelet")
        )
        self.end_all(pod)

        def change(current: Object) -> None:
            current["status"].update(phase="Failed", reason=reason, message=message)
            pod_status.conditions(current, self.now)

        self.status(pod, change)

    def end_all(self, pod: Object) -> None:
        raise NotImplementedError

    def begun(self, current: Object, address: str) -> None:
        """What stands in the status from the moment that the kubelet has taken the pod up."""
        node = self.cache.get("nodes", None, current["spec"]["nodeName"])
        host = self.addresses.node(name(node)) if node else ""
        status = current.setdefault("status", {})
        status.setdefault("startTime", stamp(self.now))
        status.setdefault("hostIP", host)
        own = host if current["spec"].get("hostNetwork") else address
        status.update(hostIPs=[{"ip": host}], podIP=own, podIPs=[{"ip": own}], qosClass="Burstable")


def grace_of(pod: Object) -> float:
    """Seconds from the signal to the kill."""
    given = pod["metadata"].get("deletionGracePeriodSeconds")
    if given is None:
        given = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return float(given)


def identity(pod: Object, container: str, restarts: int) -> str:
    return f"sim://{uid(pod)}/{container}/{restarts}"
