"""What a pod says of its place in a workload: labels and owner, as the controllers of LeaderWorkerSet, JobSet,
StatefulSet and Deployment write them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.adapters.kube.fields import whole
from rankmuster.adapters.kube.pods import ended
from rankmuster.model.kube import PodView, WorkloadKind

LWS = "leaderworkerset.sigs.k8s.io"
LWS_NAME = f"{LWS}/name"
LWS_GROUP = f"{LWS}/group-index"
LWS_WORKER = f"{LWS}/worker-index"
LWS_KEY = f"{LWS}/group-key"
LWS_REVISION = f"{LWS}/template-revision-hash"
LWS_SIZE = f"{LWS}/size"

JOBSET = "jobset.sigs.k8s.io"
JOBSET_NAME = f"{JOBSET}/jobset-name"
JOBSET_UID = f"{JOBSET}/jobset-uid"
JOBSET_JOB = f"{JOBSET}/job-global-index"
JOBSET_ATTEMPT = f"{JOBSET}/restart-attempt"
COMPLETION = "batch.kubernetes.io/job-completion-index"

STATEFUL_REVISION = "controller-revision-hash"
TEMPLATE_HASH = "pod-template-hash"

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_ORDINAL = re.compile(r"-(0|[1-9][0-9]{0,8})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod. `workload_uid`: where it says so. `group`: of a LeaderWorkerSet, its index. `order`: its place among all
    of the workload's, (group, worker), (job, completion index) or (ordinal,); None where it does not say. `attempt`: a
    JobSet's restart. `size`: pods of its group, as its own annotation has it. `key`, `revision`: as its controller
    wrote them, empty where it did not."""

    pod: PodView
    kind: WorkloadKind
    workload: str
    workload_uid: str | None = None
    group: str | None = None
    order: tuple[int, ...] | None = None
    attempt: int = 0
    size: int | None = None
    key: str = ""
    revision: str = ""

    @property
    def alive(self) -> bool:
        """Whether it runs, or is about to, and nobody has told it to end."""
        return not self.pod.deleting and not ended(self.pod)


def member_of(pod: PodView) -> Member | None:
    """Its place; None where it is in none of the four kinds."""
    if pod.labels.get(LWS_NAME):
        return _of_leader_worker_set(pod)
    if pod.labels.get(JOBSET_NAME):
        return _of_job_set(pod)
    if pod.owner is None:
        return None
    if pod.owner.kind == "StatefulSet":
        ordinal = _ORDINAL.search(pod.name)
        return Member(
            pod=pod,
            kind=WorkloadKind.STATEFUL_SET,
            workload=pod.owner.name,
            workload_uid=pod.owner.uid,
            order=(int(ordinal.group(1)),) if ordinal is not None else None,
            revision=pod.labels.get(STATEFUL_REVISION, ""),
        )
    hash_ = pod.labels.get(TEMPLATE_HASH)
    if pod.owner.kind == "ReplicaSet" and hash_ and pod.owner.name.endswith(f"-{hash_}"):
        return Member(
            pod=pod,
            kind=WorkloadKind.DEPLOYMENT,
            workload=pod.owner.name.removesuffix(f"-{hash_}"),
            revision=hash_,
        )
    return None


def in_order(members: Iterable[Member]) -> list[Member]:
    """By place; those without one last. Of several in one place the newest first."""
    return sorted(
        members, key=lambda one: (one.order is None, one.order or (), -one.attempt, -one.pod.created, one.pod.name)
    )


def _of_leader_worker_set(pod: PodView) -> Member:
    group, worker = _index(pod.labels.get(LWS_GROUP)), _index(pod.labels.get(LWS_WORKER))
    return Member(
        pod=pod,
        kind=WorkloadKind.LEADER_WORKER_SET,
        workload=pod.labels[LWS_NAME],
        group=None if group is None else str(group),
        order=None if group is None or worker is None else (group, worker),
        size=whole(pod.annotations, LWS_SIZE),
        key=pod.labels.get(LWS_KEY, ""),
        revision=pod.labels.get(LWS_REVISION, ""),
    )


def _of_job_set(pod: PodView) -> Member:
    job = _index(pod.labels.get(JOBSET_JOB) or pod.annotations.get(JOBSET_JOB))
    place = _index(pod.labels.get(COMPLETION) or pod.annotations.get(COMPLETION))
    return Member(
        pod=pod,
        kind=WorkloadKind.JOB_SET,
        workload=pod.labels[JOBSET_NAME],
        workload_uid=pod.labels.get(JOBSET_UID),
        order=None if job is None or place is None else (job, place),
        attempt=_index(pod.labels.get(JOBSET_ATTEMPT) or pod.annotations.get(JOBSET_ATTEMPT)) or 0,
    )


def _index(value: str | None) -> int | None:
    return int(value) if value is not None and _INDEX.fullmatch(value) else None
