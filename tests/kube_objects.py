"""Pods, nodes and workloads as an API server has them, for tests of what reads them."""

from __future__ import annotations

from typing import Any

BORN = "2026-11-30T16:00:00Z"
LWS = "leaderworkerset.sigs.k8s.io"
JOBSET = "jobset.sigs.k8s.io"


def pod(
    name: str,
    uid: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str, str] | None = ("StatefulSet", "llm", "sts-uid"),
    node: str | None = "node-a",
    phase: str = "Running",
    ready: bool = True,
    deleting: bool = False,
    restarts: int = 0,
    created: str = BORN,
    exit_code: int | None = None,
) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {"startedAt": created}} if phase == "Running" else {}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": created}}
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "serve",
            "name": name,
            "uid": uid,
            "resourceVersion": "7",
            "creationTimestamp": created,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "vllm", "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}}},
                {"name": "shipper"},
            ],
            "initContainers": [{"name": "rankmuster", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": phase,
            "podIP": f"10.0.0.{sum(name.encode()) % 250}",
            "hostIP": "192.0.2.1",
            "conditions": [
                {"type": "Ready", "status": str(ready)},
                {"type": "ContainersReady", "status": str(ready), "lastTransitionTime": created},
            ],
            "containerStatuses": [
                {"name": "vllm", "restartCount": restarts, "ready": ready, "state": state},
                {"name": "shipper", "restartCount": 5, "ready": ready, "state": state},
            ],
        },
    }
    if owner is not None:
        kind, owner_name, owner_uid = owner
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": kind, "name": owner_name, "uid": owner_uid, "controller": True}
        ]
    if deleting:
        made["metadata"]["deletionTimestamp"] = created
    return made


def group_pod(
    group: int, worker: int, uid: str, *, revision: str = "r1", key: str = "k", **more: Any
) -> dict[str, Any]:
    """Of the LeaderWorkerSet `llm`, groups of 2."""
    name = f"llm-{group}" + (f"-{worker}" if worker else "")
    labels = {
        f"{LWS}/name": "llm",
        f"{LWS}/group-index": str(group),
        f"{LWS}/worker-index": str(worker),
        f"{LWS}/group-key": f"{key}{group}",
        f"{LWS}/template-revision-hash": revision,
    }
    owner = ("StatefulSet", f"llm-{group}" if worker else "llm", "sts-uid")
    return pod(
        name, uid, labels={**labels, **more.pop("labels", {})}, annotations={f"{LWS}/size": "2"}, owner=owner, **more
    )


def job_pod(job: int, place: int, uid: str, *, attempt: int = 0, **more: Any) -> dict[str, Any]:
    """Of the JobSet `llm`."""
    labels = {
        f"{JOBSET}/jobset-name": "llm",
        f"{JOBSET}/jobset-uid": "js-uid",
        f"{JOBSET}/job-global-index": str(job),
        f"{JOBSET}/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(place),
    }
    return pod(f"llm-w-{job}-{place}-x{uid}", uid, labels=labels, owner=("Job", f"llm-w-{job}", f"job-{job}"), **more)


def workload(kind: str, uid: str, spec: dict[str, Any], *, name: str = "llm", **more: Any) -> dict[str, Any]:
    metadata = {"namespace": "serve", "name": name, "uid": uid, "creationTimestamp": BORN, **more.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, "spec": spec, **more}
