"""Pods, workloads and policies of the controller's tests, as views."""

from __future__ import annotations

from typing import Any

from rankmuster.adapters.kube.workloads import WorkloadView
from rankmuster.kube.controller.matching import PolicyView
from rankmuster.kube.crd.policy import PolicySpec
from rankmuster.model.kube import SIDECAR, ContainerView, OwnerView, PodView, WorkloadKind


def engine(**more: Any) -> ContainerView:
    return ContainerView(**{"name": "engine", "running": True, "ready": True, "started_at": 100.0, "gpus": 8, **more})


def sidecar() -> ContainerView:
    return ContainerView(name=SIDECAR, running=True, ready=True, started_at=99.0, init=True)


def workload(name: str = "llm", replicas: int = 1, size: int = 2, **labels: str) -> WorkloadView:
    return WorkloadView(
        kind=WorkloadKind.LEADER_WORKER_SET,
        namespace="prod",
        name=name,
        uid=f"uid-{name}",
        labels={"app": name, **labels},
        replicas=replicas,
        size=size,
    )


def pod(worker: int = 0, *, name: str = "llm", group: int = 0, uid: str | None = None, **more: Any) -> PodView:
    lws = "leaderworkerset.sigs.k8s.io"
    called = f"{name}-{group}" + (f"-{worker}" if worker else "")
    labels = {
        f"{lws}/name": name,
        f"{lws}/group-index": str(group),
        f"{lws}/worker-index": str(worker),
        f"{lws}/group-key": f"key-{group}",
        f"{lws}/template-revision-hash": "1",
    }
    given = {
        "namespace": "prod",
        "name": called,
        "uid": uid or f"uid-{called}",
        "created": 50.0,
        "resource_version": "1",
        "node": f"node-{worker}",
        "ip": f"10.0.{group}.{worker + 1}",
        "host_ip": f"10.1.0.{worker + 1}",
        "phase": "Running",
        "ready": True,
        "labels": labels,
        "annotations": {f"{lws}/size": "2"},
        "owner": OwnerView(kind="StatefulSet", name=called, uid="uid-set"),
        "containers": (engine(), sidecar()),
    }
    return PodView(**{**given, **more})


def policy(name: str = "all", app: str | None = "llm", **spec: Any) -> PolicyView:
    labels = (
        {"matchLabels": {"app": app}}
        if app is not None
        else {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    )
    return PolicyView(
        namespace="prod",
        name=name,
        uid=f"uid-{name}",
        generation=1,
        spec=PolicySpec.model_validate({"selector": labels, **spec}),
    )
