"""The controllers of a simulated cluster, each in its file."""

from __future__ import annotations

from kube_sim.controllers.base import Controller
from kube_sim.controllers.garbage import GarbageCollector
from kube_sim.controllers.leader_worker_set import LeaderWorkerSets
from kube_sim.controllers.nodes import NodeLifecycle, TaintEviction
from kube_sim.controllers.stateful_set import StatefulSets
from kube_sim.scheduler import Scheduler

ALL: tuple[type[Controller], ...] = (
    GarbageCollector,
    StatefulSets,
    LeaderWorkerSets,
    NodeLifecycle,
    TaintEviction,
    Scheduler,
)
