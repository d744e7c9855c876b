"""What controllers of a simulated cluster ask of Kubernetes' objects, which are JSON as an API server has it."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

PLURALS = {
    "Pod": "pods",
    "Node": "nodes",
    "Service": "services",
    "Event": "events",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Namespace": "namespaces",
    "StatefulSet": "statefulsets.apps",
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "DaemonSet": "daemonsets.apps",
    "ControllerRevision": "controllerrevisions.apps",
    "Job": "jobs.batch",
    "EndpointSlice": "endpointslices.discovery.k8s.io",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "LeaderWorkerSet": "leaderworkersets.leaderworkerset.x-k8s.io",
    "JobSet": "jobsets.jobset.x-k8s.io",
    "Lease": "leases.coordination.k8s.io",
}
GPU = "nvidia.com/gpu"


def group_of(api_version: str) -> str:
    """Of `apps/v1`: apps; of `v1`: empty."""
    return api_version.split("/")[0] if "/" in api_version else ""


def plural_of(api_version: str, kind: str) -> str:
    """The store's key of a kind. Kinds that are not known here are formed as English forms them."""
    if kind in PLURALS:
        return PLURALS[kind]
    lower = kind.lower()
    plural = lower[:-1] + "ies" if lower.endswith("y") else lower + ("es" if lower.endswith("s") else "s")
    group = group_of(api_version)
    return f"{plural}.{group}" if group else plural


def plural(obj: Object) -> str:
    return plural_of(obj.get("apiVersion", "v1"), obj["kind"])


def meta(obj: Object) -> Object:
    found: Object = obj["metadata"]
    return found


def uid(obj: Object) -> str:
    return str(meta(obj)["uid"])


def name(obj: Object) -> str:
    return str(meta(obj)["name"])


def namespace(obj: Object) -> str | None:
    return meta(obj).get("namespace")


def labels(obj: Object) -> dict[str, str]:
    return meta(obj).get("labels") or {}


def annotations(obj: Object) -> dict[str, str]:
    return meta(obj).get("annotations") or {}


def deleting(obj: Object) -> bool:
    return bool(meta(obj).get("deletionTimestamp"))


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def finished(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def active(pod: Object) -> bool:
    """As ReplicaSets and Jobs count: neither finished nor being deleted."""
    return not finished(pod) and not deleting(pod)


def stamp(seconds: float) -> str:
    """RFC 3339 with whole seconds, as Kubernetes writes metav1.Time."""
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def controller_of(obj: Object) -> Object | None:
    """The owner reference whose `controller` is true."""
    return next((one for one in meta(obj).get("ownerReferences") or [] if one.get("controller")), None)


def owned_by(owner: Object) -> Object:
    """A controller's owner reference, which blocks the owner's foreground deletion, as client libraries make it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(obj: Object, type_: str) -> Object | None:
    found = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in found if one.get("type") == type_), None)


def is_true(obj: Object, type_: str) -> bool:
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def set_condition(obj: Object, type_: str, value: bool | str, at: float, reason: str = "", message: str = "") -> bool:
    """Writes it into the object's status; whether that changed anything. The time changes with the value alone."""
    wanted = value if isinstance(value, str) else str(value)
    conditions = obj.setdefault("status", {}).setdefault("conditions", [])
    found = next((one for one in conditions if one.get("type") == type_), None)
    if found is None:
        conditions.append(found := {"type": type_})
    before = dict(found)
    if found.get("status") != wanted:
        found.update(status=wanted, lastTransitionTime=stamp(at))
    for key, text in (("reason", reason), ("message", message)):
        if text:
            found[key] = text
        else:
            found.pop(key, None)
    return found != before


def fits(selector: Mapping[str, Any] | None, given: Mapping[str, str]) -> bool:
    """A label selector (matchLabels, matchExpressions); None selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(given.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(fits_expression(one, given) for one in selector.get("matchExpressions") or [])


def fits_expression(one: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    key, operator, values = one["key"], one["operator"], one.get("values") or []
    if operator == "In":
        return given.get(key) in values
    if operator == "NotIn":
        return given.get(key) not in values
    if operator == "Exists":
        return key in given
    if operator == "DoesNotExist":
        return key not in given
    if operator in ("Gt", "Lt") and key in given:
        return (int(given[key]) > int(values[0])) == (operator == "Gt") and int(given[key]) != int(values[0])
    return False


def tolerates(pod: Object, taint: Mapping[str, Any]) -> Object | None:
    """The first toleration that fits the taint."""
    for one in (pod.get("spec") or {}).get("tolerations") or []:
        if one.get("effect") and one["effect"] != taint.get("effect"):
            continue
        if one.get("operator", "Equal") == "Exists":
            if not one.get("key") or one["key"] == taint.get("key"):
                return dict(one)
        elif one.get("key") == taint.get("key") and (one.get("value") or "") == (taint.get("value") or ""):
            return dict(one)
    return None


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """An init container that goes on: a native sidecar."""
    return container.get("restartPolicy") == "Always"


def gpus(pod: Object) -> int:
    """What the pod takes of a node: its containers and sidecars together, or its greatest init container."""
    spec = pod.get("spec") or {}

    def of(container: Object) -> int:
        resources = container.get("resources") or {}
        return int((resources.get("limits") or {}).get(GPU, (resources.get("requests") or {}).get(GPU, 0)))

    inits = spec.get("initContainers") or []
    going_on = sum(of(one) for one in spec.get("containers") or []) + sum(of(one) for one in inits if is_sidecar(one))
    return max([going_on, *(of(one) for one in inits if not is_sidecar(one))])


def pod_of(template: Object, pod_name: str, pod_namespace: str | None, owner: Object) -> Object:
    """A pod of an owner's template."""
    template = copy.deepcopy(template)
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": pod_namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owned_by(owner)],
        },
        "spec": template.get("spec") or {},
    }


def add_environment(pod: Object, variables: Mapping[str, str | Object]) -> None:
    """Into all containers, before the others, so that these may name them; where the name is not there already. A
    mapping is a `valueFrom`."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        there = container.get("env") or []
        known = {one["name"] for one in there}
        added = [
            {"name": key, "value": value} if isinstance(value, str) else {"name": key, **value}
            for key, value in variables.items()
            if key not in known
        ]
        container["env"] = [*added, *there]
