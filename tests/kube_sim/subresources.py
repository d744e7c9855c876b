"""eviction, binding, ephemeralcontainers and scale: parts of objects with rules of their own."""

from __future__ import annotations

import math
from typing import Any

from kube_sim.call import Answer, Call, Object, answer_of, encoded
from kube_sim.problems import ApiProblem, bad_request, no_such_path
from kube_sim.reading import get
from kube_sim.selectors import selector_fits
from kube_sim.store import Store
from kube_sim.values import copied, stamp
from kube_sim.writing import patch_kind


def posted(store: Store, call: Call) -> Answer:
    """POST to a subresource. Raises ApiProblem."""
    target = call.target
    given = call.body()
    if not isinstance(given, dict):
        raise bad_request("the object provided is unrecognized")
    if target.info.key == "pods" and target.subresource == "eviction":
        return _evicted(store, call, given)
    if target.info.key == "pods" and target.subresource == "binding":
        node = (given.get("target") or {}).get("name")
        pod = store.get("pods", target.namespace, target.name or "")
        if pod["spec"].get("nodeName"):
            message = f"pod {target.name} is already assigned to node {pod['spec']['nodeName']!r}"
            raise ApiProblem(409, "Conflict", message)
        pod["spec"]["nodeName"] = node
        store.update(pod, user=call.user, manager=call.manager)
        return Answer(encoded({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}), 201)
    raise no_such_path()


def _evicted(store: Store, call: Call, given: Object) -> Answer:
    target = call.target
    pod = store.get("pods", target.namespace, target.name or "")
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")
    if not ended:
        for budget in store.rows("poddisruptionbudgets.policy", target.namespace):
            if selector_fits(budget["spec"].get("selector"))(pod):
                _check_budget(store, budget, pod)
    options = given.get("deleteOptions") or {}
    conditions = options.get("preconditions") or {}
    if not call.dry_run:
        _tell_disruption(store, pod)
    store.delete(
        "pods",
        target.namespace,
        target.name or "",
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        grace=options.get("gracePeriodSeconds"),
        dry_run=call.dry_run,
    )
    return Answer(
        encoded({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}), 201
    )


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _share(value: Any, of: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * of / 100)
    return int(value)


def _check_budget(store: Store, budget: Object, pod: Object) -> None:
    spec, fits = budget["spec"], selector_fits(budget["spec"].get("selector"))
    covered = [one for one in store.rows("pods", budget["metadata"]["namespace"]) if fits(one)]
    healthy = [one for one in covered if _is_ready(one) and "deletionTimestamp" not in one["metadata"]]
    if spec.get("minAvailable") is not None:
        wanted = _share(spec["minAvailable"], len(covered))
    else:
        wanted = len(covered) - _share(spec.get("maxUnavailable", 0), len(covered))
    if not _is_ready(pod) and len(healthy) >= wanted:
        return
    if len(healthy) - 1 < wanted or not _is_ready(pod):
        name = budget["metadata"]["name"]
        message = f"The disruption budget {name} needs {wanted} healthy pods and has {len(healthy)} currently"
        raise ApiProblem(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
        )


def _tell_disruption(store: Store, pod: Object) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": stamp(store.clock()),
    }
    metadata = pod["metadata"]
    body = {"status": {"conditions": [condition]}}
    store.patch("pods", metadata["namespace"], metadata["name"], body, kind="strategic", subresource="status")


def ephemeral(store: Store, call: Call) -> Answer:
    """GET, PUT and PATCH of pods/ephemeralcontainers: containers may come, none may go or change."""
    target = call.target
    if call.verb == "get":
        return get(store, call)
    with store.still():
        live = store.get("pods", target.namespace, target.name or "")
        if call.verb == "patch":
            kind = patch_kind(call)
            if kind == "apply":
                raise ApiProblem(415, "UnsupportedMediaType", "the simulated server applies no ephemeral containers")
            made = store.patch(
                "pods", target.namespace, target.name or "", call.body(), kind=kind, dry_run=True, subresource="open"
            )
        else:
            made = call.object()
        had = {one["name"]: one for one in live["spec"].get("ephemeralContainers") or ()}
        now = {one["name"]: one for one in made["spec"].get("ephemeralContainers") or ()}
        if any(now.get(name) != one for name, one in had.items()):
            raise ApiProblem(
                422,
                "Invalid",
                f'Pod "{target.name}" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers '
                "may not be changed or removed",
            )
        live["spec"]["ephemeralContainers"] = list(now.values())
        done = store.update(live, subresource="open", manager=call.manager, dry_run=call.dry_run)
    return answer_of(done, target)


def scaled(store: Store, call: Call) -> Answer:
    """GET, PUT and PATCH of scale."""
    target = call.target
    key, namespace, name = target.info.key, target.namespace, target.name or ""
    obj = store.get(key, namespace, name)
    if call.verb != "get":
        given = call.body()
        wanted = (given.get("spec") or {}).get("replicas") if isinstance(given, dict) else None
        if not isinstance(wanted, int) or wanted < 0:
            raise bad_request(f"spec.replicas: {wanted!r} is no number of replicas")
        body = {"spec": {"replicas": wanted}}
        obj = store.patch(key, namespace, name, body, manager=call.manager, dry_run=call.dry_run)
    metadata = {
        one: obj["metadata"][one] for one in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    scale: Object = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    scale["spec"] = {"replicas": (obj.get("spec") or {}).get("replicas", 1)}
    scale["status"] = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    return Answer(encoded(copied(scale)))
