"""Which Services still send requests to pods, as their EndpointSlices have it.

A Service that publishes addresses that are not ready has `ready` true and `serving` false: one with an address of its
own sends requests there whatever the pod says; a headless one (a LeaderWorkerSet's own) only answers DNS.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rankmuster.adapters.kube.api import Api, Forbidden, Kind, KubeError, NotThere
from rankmuster.adapters.kube.fields import at, parts, text
from rankmuster.collect.deadline import Deadline

SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"


class Slices:
    """Of one namespace. A role that may not read them is asked once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._unreadable = False

    def routed(self, namespace: str, uids: Collection[str], deadline: Deadline) -> tuple[tuple[str, ...], str]:
        """(sentences on Services that send requests to one of these pods, what else is to be known of them)."""
        if self._unreadable or not uids:
            return (), ""
        try:
            found = self._api.list(SLICES, namespace, deadline)
        except (Forbidden, NotThere):
            self._unreadable = True
            return (), "EndpointSlices may not be read: what Services make of it is not known"
        except KubeError as error:
            return (), f"what Services make of it is not known ({error})"
        routed: dict[str, str] = {}
        for one in found:
            service = text(one, "metadata", "labels", SERVICE_NAME) or text(one, "metadata", "name") or "?"
            headless = at(one, "metadata", "labels", HEADLESS) is not None
            for endpoint in parts(one, "endpoints"):
                if text(endpoint, "targetRef", "uid") in uids and not headless and _gets(endpoint):
                    pod = text(endpoint, "targetRef", "name") or "?"
                    routed.setdefault(service, _said(service, pod, endpoint))
        return tuple(routed[one] for one in sorted(routed)), ""


def _gets(endpoint: Mapping[str, Any]) -> bool:
    """An unknown `ready` counts as true, as the API has it."""
    return at(endpoint, "conditions", "ready") is not False


def _said(service: str, pod: str, endpoint: Mapping[str, Any]) -> str:
    if at(endpoint, "conditions", "serving") is False:
        return f"Service {service} publishes addresses that are not ready, and sends requests to pod {pod}"
    return f"Service {service} still has pod {pod} among its ready endpoints"
