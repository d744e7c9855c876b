"""A simulated cluster behind its API server, in virtual time, with one workload's group on it: time goes on while the
group waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kube_sim.clock import VirtualClock
from kube_sim.cluster import Cluster
from kube_sim.objects import is_true, name, uid
from kube_sim.running import serving
from kube_sim.server import Server
from kube_sim.store import Store
from rankmuster.adapters.kube.client import Client
from rankmuster.adapters.kube.connecting import Credentials
from rankmuster.adapters.kube.find import Find, finder
from rankmuster.adapters.kube.groups.base import PodGroup
from rankmuster.adapters.kube.groups.of_kind import GROUPS
from rankmuster.adapters.kube.retrying import Pace
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import Grouping, WorkloadKind

NAMESPACE = "serving"


class World:
    """`before_pause`: called with the seconds before time goes on, once; a test does there what others do meanwhile."""

    def __init__(self, cluster: Cluster, server: Server, client: Client) -> None:
        self.cluster, self.server, self.client = cluster, server, client
        self.before_pause: list[Callable[[], object]] = []

    def pause(self, seconds: float) -> None:
        if self.before_pause:
            self.before_pause.pop(0)()
        self.cluster.run(seconds)

    def after(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self.cluster.clock)

    def find(
        self, kind: WorkloadKind, index: str | None = None, grouping: Grouping = Grouping.AUTO, workload: str = "llm"
    ) -> Find:
        return finder(self.client, NAMESPACE, kind, workload, index=index, grouping=grouping)

    def group(
        self, kind: WorkloadKind, index: str | None = None, grouping: Grouping = Grouping.AUTO, **more: Any
    ) -> PodGroup:
        found: PodGroup = GROUPS[kind](
            self.client, self.find(kind, index, grouping), name=f"{NAMESPACE}.llm", pause=self.pause, **more
        )
        return found

    def settle(self, pods: int) -> dict[str, str]:
        """Until so many pods are there and ready; their names and UIDs."""
        assert self.cluster.run_until(lambda: self._ready(pods)), self.uids()
        return self.uids()

    def _ready(self, pods: int) -> bool:
        found = self.cluster.cache.all("pods")
        return len(found) == pods and all(is_true(one, "Ready") for one in found)

    def uids(self) -> dict[str, str]:
        return {name(one): uid(one) for one in self.cluster.cache.all("pods")}

    def deleted(self) -> list[str]:
        """What was asked to be deleted through the API server."""
        return [f"{one.resource}/{one.name}" for one in self.server.recorder.asked(verb="delete")]


@contextmanager
def world(*manifests: dict[str, Any], nodes: int = 4) -> Iterator[World]:
    from kubernetes.client import Configuration

    clock = VirtualClock()
    with Cluster(Store(clock), clock) as cluster:
        for number in range(nodes):
            cluster.node(f"node-{number}")
        cluster.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for one in manifests:
            cluster.store.create(one)
        with serving(cluster.store) as server:
            credentials = Credentials(lambda: Configuration(host=server.url), Deadline.after(30))
            client = Client(credentials, pace=Pace(first=0.01, longest=0.02, most=3, attempt_seconds=2.0))
            try:
                yield World(cluster, server, client)
            finally:
                client.close()
