"""EndpointSlices of Services that select pods: who may get requests. A pod that is not Ready is no serving endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, key_of
from kube_sim.objects import Object, deleting, finished, is_true, labels, name, namespace, owned_by, uid

KIND = "endpointslices.discovery.k8s.io"
HEADLESS = "service.kubernetes.io/headless"


class EndpointSlices(Controller):
    """One slice a Service, `NAME-sim`. Keys are Services."""

    watches = ("services", "pods")

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        if kind == "services":
            return (key_of(obj),)
        return [
            key_of(one)
            for one in self.cache.all("services", namespace(obj))
            if _selects(one, obj) or (before is not None and _selects(one, before))
        ]

    def reconcile(self, key: Key) -> None:
        service = self.cache.get("services", *key)
        if service is None or deleting(service) or not service["spec"].get("selector"):
            return
        unready = bool(service["spec"].get("publishNotReadyAddresses"))
        endpoints = []
        for pod in sorted(self.cache.all("pods", namespace(service)), key=name):
            address = (pod.get("status") or {}).get("podIP")
            if not _selects(service, pod) or not address or finished(pod):
                continue
            serving = is_true(pod, "Ready")
            endpoints.append(
                {
                    "addresses": [address],
                    "conditions": {
                        "ready": unready or (serving and not deleting(pod)),
                        "serving": serving,
                        "terminating": deleting(pod),
                    },
                    "nodeName": pod["spec"].get("nodeName"),
                    "hostname": pod["spec"].get("hostname"),
                    "targetRef": {"kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod)},
                }
            )
        ports = [
            {"name": one.get("name", ""), "port": self._port(service, one), "protocol": "TCP"}
            for one in service["spec"].get("ports") or []
        ]
        found = self.cache.get(KIND, namespace(service), f"{name(service)}-sim")
        if found is None:
            self.create(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "name": f"{name(service)}-sim",
                        "namespace": namespace(service),
                        "labels": {
                            "kubernetes.io/service-name": name(service),
                            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                            **({HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}),
                        },
                        "ownerReferences": [owned_by(service)],
                    },
                    "addressType": "IPv4",
                    "endpoints": endpoints,
                    "ports": ports,
                }
            )
            return

        def change(current: Object) -> bool | None:
            if current.get("endpoints") == endpoints and current.get("ports") == ports:
                return False
            current.update(endpoints=endpoints, ports=ports)
            return None

        self.edit(found, change)

    def _port(self, service: Object, port: Object) -> int:
        """A name is that of a port of the pods' containers."""
        target = port.get("targetPort") or port["port"]
        for pod in self.cache.all("pods", namespace(service)) if isinstance(target, str) else ():
            if _selects(service, pod):
                for container in pod["spec"]["containers"]:
                    for one in container.get("ports") or []:
                        if one.get("name") == target:
                            return int(one["containerPort"])
        return int(port["port"]) if isinstance(target, str) else int(target)


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector") or {}
    return bool(selector) and all(labels(pod).get(key) == value for key, value in selector.items())


def ready_addresses(cluster: Any, space: str, service: str) -> list[str]:
    """Who gets the requests of a Service now."""
    found = cluster.cache.get(KIND, space, f"{service}-sim") or {}
    return [one["addresses"][0] for one in found.get("endpoints") or [] if one["conditions"]["ready"]]
