"""A simulated cluster with a controller in this process: real HTTP, watches and journal; the sidecars are played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kube_sim.cluster import Cluster
from kube_sim.running import serving, write_kubeconfig
from kube_sim.server import Server
from kube_sim.store import Store
from rankmuster.adapters.kube.agent_wire import NoAnswer
from rankmuster.adapters.kube.client import Client, connect
from rankmuster.kube.controller.assembly import assemble
from rankmuster.kube.controller.controller import Controller
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.watching import Watching
from rankmuster.kube.crd.render import definitions
from rankmuster.model.fault import Progress
from rankmuster.model.kube import GATE, SIDECAR, PodView
from rankmuster.store.history import History
from rankmuster.store.journal import Journal
from rankmuster.watch.export.snapshot_json import to_json
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

LWS = "leaderworkersets.leaderworkerset.x-k8s.io"
POLICIES = "communicationpolicies.rankmuster.dev"
INCIDENTS = "communicationincidents.rankmuster.dev"


class Sidecars:
    """What sidecars say of pods, by the pod's UID: advancing, unless a stop was played on it."""

    def __init__(self) -> None:
        self.stopped: dict[str, float] = {}
        self.asked = 0

    def stop(self, *uids: str) -> None:
        self.stopped.update(dict.fromkeys(uids, time.time()))

    def state(self, pod: PodView, deadline: Any, *, port: int = 0) -> Any:
        self.asked += 1
        if pod.deleting:
            raise NoAnswer(f"pod {pod.name} is going")
        since = self.stopped.get(pod.uid)
        progress = Progress.ADVANCING if since is None else Progress.STOPPED
        view = InstanceView("x", progress, since or pod.created, "played", incarnation=f"watch:{pod.uid}")
        return to_json(Snapshot(pod.name, time.time(), WatcherView("1", 0.0, 1.0), (view,)))


def group(name: str = "llm", size: int = 2, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """A LeaderWorkerSet whose pods have a sidecar and the gate."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "readinessGates": [{"conditionType": GATE}],
            "initContainers": [{"name": SIDECAR, "image": "sidecar", "restartPolicy": "Always"}],
            "containers": [
                {"name": "engine", "image": "engine", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
            ],
        },
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "prod", "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "workerTemplate": template,
                **spec,
            },
        },
    }


def policy(name: str = "llm", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rankmuster.dev/v1alpha1",
        "kind": "CommunicationPolicy",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, **spec},
    }


class Rig:
    def __init__(self, folder: Path, store: Store, cluster: Cluster, server: Server) -> None:
        self.folder, self.store, self.cluster, self.server = folder, store, cluster, server
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", server.url)
        self.sidecars = Sidecars()
        self.said: list[str] = []

    @property
    def client(self) -> Client:
        return connect(self.kubeconfig, None)

    @contextmanager
    def controller(self, *, admits: bool = False, **more: Any) -> Iterator[Controller]:
        """A controller that runs until the end of the block. `admits`: nodes, too."""
        settings = ControllerSettings(
            **{
                "folder": self.folder / "evidence",
                "enable": ("traffic", "group", "node", "retest"),
                "period": 1.0,
                "namespace": "rankmuster",
                **more,
            }
        )
        stop = threading.Event()
        api = self.client
        with Journal.open(str(self.folder / "journal.db")) as journal, ExitStack() as stack:
            kept = stack.enter_context(History.open(str(self.folder / "history.db"))) if admits else None
            made = assemble(
                settings,
                api,
                journal,
                history=kept,
                holder=f"test-{time.time()}",
                host="test",
                say=self.said.append,
                asks=self.sidecars,
            )
            watching = Watching(
                settings,
                made.controller.sinks(),
                kubeconfig=self.kubeconfig,
                context=None,
                say=self.said.append,
                failed=self.said.append,
            )
            watching.start()
            thread = threading.Thread(target=made.controller.run, args=(stop,), daemon=True)
            thread.start()
            try:
                yield made.controller
            finally:
                stop.set()
                thread.join(20)
                watching.stop(5.0)
                made.close(2.0)
                api.close()

    def until(self, what: Callable[[], Any], seconds: float = 30.0) -> Any:
        """What it gives, once it gives something."""
        end, last = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                found = what()
            except Exception as error:  # what is not there yet
                found, last = None, error
            if found:
                return found
            time.sleep(0.05)
        rows = [
            f"{row['what']}: {row.get('ending')}: {row['note']}"
            for one in self.store.list(INCIDENTS, "prod")
            for row in one.get("status", {}).get("timeline", ())
        ]
        said, told = chr(10).join(self.said[-10:]), chr(10).join(rows)
        raise AssertionError(f"it did not come; said: {said}{chr(10)}timeline: {told}{chr(10)}last: {last}")

    def pods(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.store.list("pods", "prod")}

    def ready(self, count: int) -> bool:
        def is_ready(one: dict[str, Any]) -> bool:
            return any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in one.get("status", {}).get("conditions", ())
            )

        pods = self.pods().values()
        return len(pods) == count and all(is_ready(one) for one in pods)

    def incident(self) -> dict[str, Any]:
        """The only CommunicationIncident."""
        (one,) = self.store.list(INCIDENTS, "prod")
        return one

    def condition(self, obj: dict[str, Any], kind: str) -> tuple[str, str]:
        found = next(one for one in obj["status"]["conditions"] if one["type"] == kind)
        return found["status"], found["reason"]


@contextmanager
def rig(folder: Path, nodes: int = 3) -> Iterator[Rig]:
    folder.mkdir(parents=True, exist_ok=True)
    store = Store()
    for one in definitions():
        store.create(one)
    with serving(store, bookmark_seconds=1.0) as server, Cluster(store, time.time) as cluster:
        for number in range(nodes):
            cluster.node(f"node-{number}")
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rankmuster"}})
        cluster.start()
        try:
            yield Rig(folder, store, cluster, server)
        finally:
            cluster.stop()
