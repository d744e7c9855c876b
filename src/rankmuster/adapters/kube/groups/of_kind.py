"""Which kind of group an instance is ended and started by."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.adapters.kube.groups.base import PodGroup
from rankmuster.adapters.kube.groups.deployment import DeploymentGroup
from rankmuster.adapters.kube.groups.job_set import JobSetGroup
from rankmuster.adapters.kube.groups.leader_worker_set import LeaderWorkerSetGroup
from rankmuster.adapters.kube.groups.stateful_set import StatefulSetGroup
from rankmuster.model.kube import WorkloadKind

GROUPS: Mapping[WorkloadKind, type[PodGroup]] = {
    WorkloadKind.LEADER_WORKER_SET: LeaderWorkerSetGroup,
    WorkloadKind.JOB_SET: JobSetGroup,
    WorkloadKind.STATEFUL_SET: StatefulSetGroup,
    WorkloadKind.DEPLOYMENT: DeploymentGroup,
}
