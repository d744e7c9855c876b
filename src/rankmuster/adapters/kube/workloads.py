"""What makes pods, trimmed: LeaderWorkerSet, JobSet, StatefulSet and Deployment, with how many pods each wants and
whether its own controller would make them again. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.adapters.kube.api import DEPLOYMENTS, JOB_SETS, LEADER_WORKER_SETS, STATEFUL_SETS, Kind
from rankmuster.adapters.kube.fields import at, condition, controller, flag, identity, moment, parts, text, texts, whole
from rankmuster.model.kube import OwnerView, WorkloadKind

KINDS: Mapping[WorkloadKind, Kind] = {
    WorkloadKind.LEADER_WORKER_SET: LEADER_WORKER_SETS,
    WorkloadKind.JOB_SET: JOB_SETS,
    WorkloadKind.STATEFUL_SET: STATEFUL_SETS,
    WorkloadKind.DEPLOYMENT: DEPLOYMENTS,
}

INSIDE = ("LeaderWorkerSet", "Pod", "DisaggregatedSet")
"""Owners of StatefulSets that are parts of a LeaderWorkerSet: its leaders', and the workers' of each leader pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """`uid`: empty of one that is not there. `replicas`: groups of a LeaderWorkerSet, pods of a StatefulSet or
    Deployment; 1 of a JobSet. `size`: pods of one replica. `first`: the first ordinal of a StatefulSet. `jobs`: a
    JobSet's replicated jobs, in order. `ended`: why its controller makes no pods any more; empty where it does.
    `restart_policy`: a LeaderWorkerSet's."""

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str
    created: float = 0.0
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerView | None = None
    deleting: bool = False
    replicas: int = 1
    size: int = 1
    first: int = 0
    jobs: tuple[str, ...] = ()
    suspended: bool = False
    ended: str = ""
    restart_policy: str = ""

    @property
    def inside(self) -> bool:
        """Whether it is a part of another workload, and no instance of its own."""
        return self.kind is WorkloadKind.STATEFUL_SET and self.owner is not None and self.owner.kind in INSIDE

    @property
    def words(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


def workload_view(kind: WorkloadKind, raw: Mapping[str, Any]) -> WorkloadView:
    """Raises ValueError where its name, namespace or UID is missing."""
    namespace, name, uid = identity(raw)
    replicas, size = _counts(kind, raw)
    return WorkloadView(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid,
        created=moment(raw, "metadata", "creationTimestamp") or 0.0,
        resource_version=text(raw, "metadata", "resourceVersion") or "",
        labels=texts(raw, "metadata", "labels"),
        owner=controller(raw),
        deleting=text(raw, "metadata", "deletionTimestamp") is not None,
        replicas=replicas,
        size=size,
        first=whole(raw, "spec", "ordinals", "start") or 0,
        jobs=tuple(text(one, "name") or "" for one in parts(raw, "spec", "replicatedJobs")),
        suspended=flag(raw, "spec", "suspend"),
        ended=_ended(raw) if kind is WorkloadKind.JOB_SET else "",
        restart_policy=text(raw, "spec", "leaderWorkerTemplate", "restartPolicy") or "",
    )


def _counts(kind: WorkloadKind, raw: Mapping[str, Any]) -> tuple[int, int]:
    if kind is WorkloadKind.JOB_SET:
        return 1, sum(_pods_of(one) for one in parts(raw, "spec", "replicatedJobs"))
    replicas = whole(raw, "spec", "replicas", default=1) or 0
    if kind is WorkloadKind.LEADER_WORKER_SET:
        return replicas, whole(raw, "spec", "leaderWorkerTemplate", "size", default=1) or 1
    return replicas, 1


def _pods_of(job: Mapping[str, Any]) -> int:
    """Pods of one replicated job that run at once."""
    parallel = whole(job, "template", "spec", "parallelism", default=1) or 0
    wanted = at(job, "template", "spec", "completions")
    completions = whole(wanted) if wanted is not None else None
    return (whole(job, "replicas", default=1) or 0) * (parallel if completions is None else min(parallel, completions))


def _ended(raw: Mapping[str, Any]) -> str:
    for type_ in ("Failed", "Completed"):
        found = condition(raw, type_)
        if text(found, "status") == "True":
            return f"{type_} ({text(found, 'reason') or 'no reason given'})"
    return ""
