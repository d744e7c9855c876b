"""Small manifests of what runs instances, for tests against the simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pod_template(
    *,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """One engine container that asks for GPUs; `spec` overrides."""
    engine = {
        "name": "engine",
        "image": "engine:1",
        **({"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}),
    }
    return {
        "metadata": {"labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"containers": containers or [engine], **spec},
    }


def leader_worker_set(
    name: str = "llm",
    *,
    namespace: str = "serving",
    replicas: int = 1,
    size: int = 2,
    restart_policy: str = "RecreateGroupOnPodRestart",
    template: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": restart_policy,
                "workerTemplate": template or pod_template(),
            },
            **spec,
        },
    }


def workload(
    kind: str,
    name: str = "llm",
    *,
    namespace: str = "serving",
    template: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A StatefulSet, Deployment, DaemonSet or Job."""
    labels = {"app": name}
    made = template or pod_template()
    made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), **labels}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {**selector, "template": made, **spec},
    }


def job_set(
    name: str = "llm",
    *,
    namespace: str = "serving",
    replicas: int = 1,
    pods: int = 2,
    template: dict[str, Any] | None = None,
    backoff_limit: int = 0,
    **spec: Any,
) -> dict[str, Any]:
    """One replicated job, `workers`, whose pods fail for good."""
    made = template or pod_template()
    made["spec"].setdefault("restartPolicy", "Never")
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "workers",
                    "replicas": replicas,
                    "template": {
                        "spec": {
                            "parallelism": pods,
                            "completions": pods,
                            "completionMode": "Indexed",
                            "backoffLimit": backoff_limit,
                            "template": made,
                        }
                    },
                }
            ],
            **spec,
        },
    }
