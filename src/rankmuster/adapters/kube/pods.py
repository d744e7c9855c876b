"""A pod as the API server has it, trimmed to what actuators, evidence and instances need. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rankmuster.adapters.kube.fields import (
    controller,
    flag,
    identity,
    moment,
    part,
    parts,
    text,
    texts,
    whole,
)
from rankmuster.model.kube import DOMAIN, SIDECAR, ContainerView, PodView

ENDED_PHASES = ("Succeeded", "Failed")

GPU_RESOURCES = "nvidia.com/"
"""Of the device plugin: gpu, gpu.shared and mig-* are all devices that ranks run on."""

GRACE = 30
"""Seconds, where a pod says nothing (Kubernetes' own default)."""

MOST_HOST = 63
"""Characters of a host name: the kubelet cuts a pod's name there."""

ANNOTATIONS = (f"{DOMAIN}/", "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/")
"""Prefixes of those that are kept."""


def pod_view(raw: Mapping[str, Any]) -> PodView:
    """Raises ValueError where its name, namespace or UID is missing; anything else may be."""
    namespace, name, uid = identity(raw)
    conditions = {text(one, "type"): one for one in parts(raw, "status", "conditions")}
    gates = [text(one, "conditionType") for one in parts(raw, "spec", "readinessGates")]
    containers_ready = conditions.get("ContainersReady")
    return PodView(
        namespace=namespace,
        name=name,
        uid=uid,
        created=moment(raw, "metadata", "creationTimestamp") or 0.0,
        resource_version=text(raw, "metadata", "resourceVersion") or "",
        node=text(raw, "spec", "nodeName"),
        ip=text(raw, "status", "podIP"),
        host_ip=text(raw, "status", "hostIP"),
        phase=sys.intern(text(raw, "status", "phase") or "Pending"),
        ready=text(conditions.get("Ready"), "status") == "True",
        deleting=text(raw, "metadata", "deletionTimestamp") is not None,
        labels=texts(raw, "metadata", "labels"),
        annotations=texts(raw, "metadata", "annotations", prefixes=ANNOTATIONS),
        owner=controller(raw),
        containers=_containers(raw),
        gates={gate: _truth(conditions.get(gate)) for gate in gates if gate is not None},
        disruption=_disruption(conditions.get("DisruptionTarget")),
        reason=text(raw, "status", "reason") or _unscheduled(conditions.get("PodScheduled")),
        unready_since=moment(containers_ready, "lastTransitionTime")
        if text(containers_ready, "status") == "False"
        else None,
        hostname=text(raw, "spec", "hostname") or name[:MOST_HOST].rstrip("-."),
        grace=_grace(raw),
    )


def _grace(raw: Mapping[str, Any]) -> int:
    asked = whole(raw, "metadata", "deletionGracePeriodSeconds")
    own = whole(raw, "spec", "terminationGracePeriodSeconds", default=GRACE)
    return (own if asked is None else asked) or 0


def ended(pod: PodView) -> bool:
    """Whether none of its containers runs, or ever will again."""
    return pod.phase in ENDED_PHASES


def engines(pod: PodView, container: str | None = None) -> tuple[ContainerView, ...]:
    """The containers in which ranks run: the one of that name, else those that ask for GPUs, else all but ours."""
    own = tuple(one for one in pod.containers if not one.init and one.name != SIDECAR)
    if container is not None:
        return tuple(one for one in own if one.name == container)
    return tuple(one for one in own if one.gpus) or own


def _containers(raw: Mapping[str, Any]) -> tuple[ContainerView, ...]:
    found = []
    for init, specs, statuses in (
        (True, "initContainers", "initContainerStatuses"),
        (False, "containers", "containerStatuses"),
    ):
        told = {text(one, "name"): one for one in parts(raw, "status", statuses)}
        found += [_container(one, told.get(text(one, "name")), init=init) for one in parts(raw, "spec", specs)]
    return tuple(one for one in found if one is not None)


def _container(spec: Mapping[str, Any], status: Mapping[str, Any] | None, *, init: bool) -> ContainerView | None:
    name = text(spec, "name")
    if name is None:
        return None
    end = part(status, "state", "terminated") or part(status, "lastState", "terminated")
    why = text(end, "reason") or text(status, "state", "waiting", "reason") or ""
    wanted = part(spec, "resources", "limits") or part(spec, "resources", "requests")
    return ContainerView(
        name=sys.intern(name),
        restarts=whole(status, "restartCount", default=0) or 0,
        running=bool(part(status, "state", "running")),
        ready=flag(status, "ready"),
        started_at=moment(status, "state", "running", "startedAt"),
        exit_code=whole(end, "exitCode"),
        signal=whole(end, "signal"),
        reason=sys.intern(why),
        ended_at=moment(end, "finishedAt"),
        gpus=sum(whole(wanted, key) or 0 for key in wanted if isinstance(key, str) and key.startswith(GPU_RESOURCES)),
        init=init,
    )


def _truth(found: Mapping[str, Any] | None) -> bool | None:
    return None if found is None else found.get("status") == "True"


def _disruption(found: Mapping[str, Any] | None) -> str | None:
    if text(found, "status") != "True":
        return None
    return text(found, "reason") or "DisruptionTarget"


def _unscheduled(found: Mapping[str, Any] | None) -> str:
    return (text(found, "reason") or "") if text(found, "status") == "False" else ""
