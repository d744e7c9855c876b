"""The Job of an admission as an object: on one node, or over two with a Service by which they find each other. Pure.

Its pod is bound to its node by affinity and not by `nodeName`: so the scheduler counts the GPUs, and what may not be
there stays away. It takes all GPUs of the node, knows no password, and writes to its scratch folder alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.adapters.kube.api import JOBS, SERVICES, Object
from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.model.kube import ADMISSION_TAINT, DOMAIN

JOB_LABEL = f"{DOMAIN}/job"
"""On the Job and its pods: the Job's name."""

FOR = f"{DOMAIN}/for"
"""Annotation of a Job: what it belongs to (UID of a NodeAdmission, operation of a re-test)."""

LABELS = {"app.kubernetes.io/name": "rankmuster", "app.kubernetes.io/component": "admission"}
"""By which a NetworkPolicy lets the pods of a pair find each other."""

CONTAINER = "admit"
SCRATCH = "/tmp"  # noqa: S108  # a volume of the pod's own
DEADLINE_MARGIN = 60.0
"""Seconds beyond its own limits, after which Kubernetes ends the Job."""

SHORT_SECONDS = 240.0
"""Of a short test, between the end of a group and its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """`image`, `namespace`: where the shape leaves them open, the controller's own. `nodes`: one, or two of a pair.
    `gpus`: of each node. `belongs_to`: see FOR. `owner`: an ownerReference. `tolerates`: taints of ours besides the
    admission's. `seconds`: instead of the shape's."""

    name: str
    namespace: str
    image: str
    nodes: tuple[str, ...]
    gpus: int
    belongs_to: str
    owner: Mapping[str, Any] | None = None
    tolerates: tuple[str, ...] = ()
    short: bool = False
    seconds: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> bool:
        return len(self.nodes) > 1


def job(order: JobOrder, shape: JobShape) -> Object:
    """The Job."""
    labels = {**shape.labels, **order.labels, **LABELS, JOB_LABEL: order.name}
    work = shape.pair_work_seconds if order.pair else work_seconds(order, shape)
    metadata: dict[str, Any] = {
        "name": order.name,
        "namespace": order.namespace,
        "labels": labels,
        "annotations": {FOR: order.belongs_to},
    }
    if order.owner is not None:
        metadata["ownerReferences"] = [dict(order.owner)]
    spec: dict[str, Any] = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": math.ceil(shape.start_seconds + work + DEADLINE_MARGIN),
        "ttlSecondsAfterFinished": math.ceil(shape.kept_seconds),
        "parallelism": len(order.nodes),
        "completions": len(order.nodes),
        "completionMode": "Indexed" if order.pair else "NonIndexed",
        "template": {
            "metadata": {"labels": labels, **({"annotations": dict(shape.annotations)} if shape.annotations else {})},
            "spec": _pod(order, shape),
        },
    }
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def service(order: JobOrder, job_uid: str) -> Object:
    """By which the pods of a pair find each other, before they are ready. It goes with its Job."""
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": order.name, "uid": job_uid}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {
            "name": order.name,
            "namespace": order.namespace,
            "labels": {**LABELS, JOB_LABEL: order.name},
            "ownerReferences": [owner],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_LABEL: order.name}},
    }


def work_seconds(order: JobOrder, shape: JobShape) -> float:
    """What the Job on one node may take once it runs."""
    usual = min(SHORT_SECONDS, shape.seconds) if order.short else shape.seconds
    return usual if order.seconds is None else order.seconds


def command(order: JobOrder, shape: JobShape) -> list[str]:
    """What its container runs."""
    words = ["rankmuster", "kube", "admit-job", "--python", shape.python]
    for name, value in sorted(shape.environment.items()):
        words += ["--env", f"{name}={value}"]
    if order.pair:
        words += ["--pair", f"{order.name}-0.{order.name}", "--port", str(shape.pair_port)]
        words += ["--gpus", str(shape.pair_gpus), "--seconds", f"{shape.pair_seconds:.0f}"]
        words += ["--wait-seconds", f"{shape.start_seconds:.0f}"]
        return words + [word for rail in shape.rails for word in ("--rail", rail)]
    words += ["--seconds", f"{work_seconds(order, shape):.0f}", "--tool", shape.tool]
    if order.short:
        words += ["--profile", shape.short_profile, "--runs", "1", "--dcgm-level", "0"]
    else:
        words += ["--profile", shape.profile, "--runs", str(shape.runs), "--dcgm-level", str(shape.dcgm_level)]
    if "@sha256:" in order.image:
        words += ["--image-digest", order.image.partition("@")[2]]
    return words + (["--kernel-log", shape.kernel_log] if shape.kernel_log is not None else [])


def _pod(order: JobOrder, shape: JobShape) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": shape.scratch}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shape.shm}},
    ]
    if shape.kernel_log is not None:
        volumes.append({"name": "kernel-log", "hostPath": {"path": shape.kernel_log, "type": "File"}})
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": shape.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "affinity": _affinity(order),
        "tolerations": _tolerations(order, shape),
        "securityContext": _pod_security(shape),
        "containers": [_container(order, shape)],
        "volumes": volumes,
    }
    if order.pair:
        spec["subdomain"] = order.name
    if shape.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if shape.runtime_class is not None:
        spec["runtimeClassName"] = shape.runtime_class
    if shape.priority_class is not None:
        spec["priorityClassName"] = shape.priority_class
    if shape.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in shape.pull_secrets]
    return spec


def _container(order: JobOrder, shape: JobShape) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [
        {"name": "scratch", "mountPath": SCRATCH},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # a volume of the pod's own
    ]
    if shape.kernel_log is not None:
        mounts.append({"name": "kernel-log", "mountPath": shape.kernel_log, "readOnly": True})
    devices = {shape.gpu_resource: str(order.gpus), **shape.resources}
    return {
        "name": CONTAINER,
        "image": order.image,
        "command": command(order, shape),
        "env": [
            {"name": "HOME", "value": SCRATCH},
            {"name": "TMPDIR", "value": SCRATCH},
            _downward("NODE_NAME", "spec.nodeName"),
            _downward("POD_NAME", "metadata.name"),
            _downward("POD_UID", "metadata.uid"),
        ],
        "resources": {"requests": {"cpu": shape.cpu, "memory": shape.memory, **devices}, "limits": devices},
        "volumeMounts": mounts,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {
                "drop": ["ALL"],
                **({"add": list(shape.capabilities)} if shape.capabilities else {}),
            },
        },
    }


def _pod_security(shape: JobShape) -> dict[str, Any]:
    found: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if shape.run_as_user is not None:
        user = shape.run_as_user
        found |= {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "runAsNonRoot": user != 0}
    return found


def _affinity(order: JobOrder) -> dict[str, Any]:
    # a field takes one value: two nodes are two terms, of which one has to hold
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in order.nodes]
    found: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    if order.pair:
        alike = {"labelSelector": {"matchLabels": {JOB_LABEL: order.name}}, "topologyKey": "kubernetes.io/hostname"}
        found["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [alike]}
    return found


def _tolerations(order: JobOrder, shape: JobShape) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"key": key, "operator": "Exists"} for key in (ADMISSION_TAINT, *order.tolerates)]
    for one in shape.tolerations:
        words: dict[str, Any] = {"operator": one.operator}
        words |= {name: value for name, value in (("key", one.key), ("effect", one.effect)) if value}
        if one.operator == "Equal":
            words["value"] = one.value
        found.append(words)
    return found


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
