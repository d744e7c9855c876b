"""The controllers of a simulated cluster, each in its file."""

from __future__ import annotations

from kube_sim.controllers.base import Controller
from kube_sim.controllers.daemon_set import DaemonSets
from kube_sim.controllers.deployment import Deployments
from kube_sim.controllers.endpoint_slice import EndpointSlices
from kube_sim.controllers.garbage import GarbageCollector
from kube_sim.controllers.job import Jobs
from kube_sim.controllers.job_set import JobSets
from kube_sim.controllers.leader_worker_set import LeaderWorkerSets
from kube_sim.controllers.nodes import NodeLifecycle, TaintEviction
from kube_sim.controllers.replica_set import ReplicaSets
from kube_sim.controllers.stateful_set import StatefulSets
from kube_sim.scheduler import Scheduler

ALL: tuple[type[Controller], ...] = (
    GarbageCollector,
    StatefulSets,
    LeaderWorkerSets,
    Deployments,
    ReplicaSets,
    DaemonSets,
    Jobs,
    JobSets,
    EndpointSlices,
    NodeLifecycle,
    TaintEviction,
    Scheduler,
)
