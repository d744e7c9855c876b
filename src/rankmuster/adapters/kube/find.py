"""One instance as it is now: its workload and its pods, read anew from the API server at every call.

A pod of a Deployment is made again under another name. While the pod that an instance is named after is gone, the
youngest living pod of the Deployment stands in for it, once there are as many as there should be: Kubernetes does not
say which one came in its place, and they are equal. A stand-in is never ended (`stands_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from rankmuster.adapters.kube.api import PODS, Api, KubeError, NotThere
from rankmuster.adapters.kube.fields import part, parts, text, texts
from rankmuster.adapters.kube.instances import instance, is_single
from rankmuster.adapters.kube.members import JOBSET_NAME, LWS_GROUP, LWS_NAME
from rankmuster.adapters.kube.pods import ended, pod_view
from rankmuster.adapters.kube.workloads import KINDS, WorkloadView, workload_view
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import Grouping, InstanceView, PodView, WorkloadKind

Find = Callable[[Deadline], InstanceView]
"""Reads the API; raises KubeError where it cannot."""


def finder(
    api: Api,
    namespace: str,
    kind: WorkloadKind,
    workload: str,
    *,
    index: str | None = None,
    grouping: Grouping = Grouping.AUTO,
    name: str | None = None,
) -> Find:
    """`index`: of the group, or the pod's name where each pod is an instance. `name`: of the instance, where it is not
    the plain one. Needs get of the workload's kind and list of pods, in that namespace."""

    def find(deadline: Deadline) -> InstanceView:
        try:
            raw = api.get(KINDS[kind], workload, namespace, deadline)
            owner = workload_view(kind, raw)
        except NotThere:
            raw, owner = {}, WorkloadView(kind=kind, namespace=namespace, name=workload, uid="", replicas=0)
        except ValueError as error:
            raise KubeError(f"{kind.value} {namespace}/{workload} cannot be read: {error}") from error
        pods, unread = _pods(api, namespace, _selector(kind, workload, raw, index, grouping), deadline)
        found = instance(owner, pods, grouping, index)
        if kind is WorkloadKind.DEPLOYMENT and is_single(kind, grouping) and not found.pods and index is not None:
            found = stand_in(found, owner, pods)
        problem = "; ".join(one for one in (found.problem, unread) if one)
        return replace(found, name=name or found.name, problem=problem)

    return find


def stands_in(view: InstanceView) -> bool:
    """Whether its pod is another one than the instance is named after."""
    single = view.kind is WorkloadKind.DEPLOYMENT and view.index is not None
    return single and view.anchor is not None and view.anchor.name != view.index


def stand_in(gone: InstanceView, owner: WorkloadView, pods: Iterable[PodView]) -> InstanceView:
    """The instance of a pod that is gone, with the one that stands in for it; without pods where none does yet."""
    whole = instance(owner, pods, Grouping.WORKLOAD)
    alive = [one for one in whole.pods if not one.deleting and not ended(one)]
    if not owner.uid or not alive or len(alive) < owner.replicas:
        return gone
    youngest = max(alive, key=lambda one: (one.created, one.name))
    return replace(gone, anchor=youngest, pods=(youngest,))


def _pods(api: Api, namespace: str, selector: str | None, deadline: Deadline) -> tuple[list[PodView], str]:
    """(the pods, what of them could not be read)."""
    found, unread = [], ""
    for raw in api.list(PODS, namespace, deadline, labels=selector):
        try:
            found.append(pod_view(raw))
        except ValueError as error:
            unread = str(error)
    return found, unread


def _selector(
    kind: WorkloadKind, workload: str, raw: Mapping[str, Any], index: str | None, grouping: Grouping
) -> str | None:
    """None: all of the namespace, where the workload does not say which are its own."""
    if kind is WorkloadKind.LEADER_WORKER_SET:
        group = f",{LWS_GROUP}={index}" if index is not None and grouping is Grouping.AUTO else ""
        return f"{LWS_NAME}={workload}{group}"
    if kind is WorkloadKind.JOB_SET:
        return f"{JOBSET_NAME}={workload}"
    told = [f"{key}={value}" for key, value in texts(raw, "spec", "selector", "matchLabels").items()]
    for one in parts(part(raw, "spec", "selector"), "matchExpressions"):
        told += _expression(one)
    return ",".join(told) or None


def _expression(raw: Mapping[str, Any]) -> list[str]:
    key, operator = text(raw, "key"), text(raw, "operator")
    values = raw.get("values")
    among = ",".join(one for one in values if isinstance(one, str)) if isinstance(values, list) else ""
    words = {
        "In": f"{key} in ({among})",
        "NotIn": f"{key} notin ({among})",
        "Exists": f"{key}",
        "DoesNotExist": f"!{key}",
    }
    return [words[operator]] if key is not None and operator in words else []
