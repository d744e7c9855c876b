"""A whole cluster of processes for tests: API server, nodes, agents, an instance with sidecars, and the controller.

What is delivered is used as it is: definitions and overlay by `kubectl kustomize`, `rankmuster kube inject` on the
workload, the roles enforced against the controller's own service account. Only the engine is small, and the test of a
node is a script that says what the test of the test wants.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import admitted
from kube_delivery import NAMESPACE, PROGRAM, TESTS, TOKEN, deliver
from kube_profile import PROFILE_TEXT
from kube_sim.clock import RealClock
from kube_sim.cluster import Cluster
from kube_sim.controllers.endpoint_slice import ready_addresses
from kube_sim.kubelet_process import PATH, Image, ProcessKubelet
from kube_sim.objects import Object, deleting, is_true, labels, name, uid
from kube_sim.pod_network import GATEWAY
from kube_sim.recorder import Asked
from kube_sim.running import serving, write_kubeconfig
from kube_sim.store import Store
from rankmuster.model.incident import Event
from rankmuster.model.kube import SIDECAR_PORT
from rankmuster.store.journal import Journal

ASIDE = ("leases", "nodeadmissions", "communicationpolicies")
"""Resources that the controller writes whether there is an incident or not."""

WRITES = ("create", "update", "patch", "delete")
INSTANCE = "serving.llm.0"
PORT = 6443
CONTROLLER = "system:serviceaccount:rankmuster:rankmuster-controller"
INCIDENTS = "communicationincidents.rankmuster.dev"


@dataclass(frozen=True)
class Change:
    """One that the API server's store has seen, for what has to come before what. `at`: monotonic seconds."""

    kind: str
    type: str
    obj: Object
    at: float


class Stand:
    """Made by `standing`."""

    def __init__(self, folder: Path, store: Store, cluster: Cluster, server: Any) -> None:
        self.folder, self.store, self.cluster, self.server = folder, store, cluster, server
        self.kubelet: ProcessKubelet = cluster.kubelet
        self.kubeconfig = folder / "kubeconfig"
        self.settings = folder / "controller.yaml"
        self.journal = folder / "journal.db"
        self.log = folder / "controller.log"
        self.changes: list[Change] = []
        self.saved: dict[str, tuple[list[Path], list[Path]]] = {}
        """UID of a pod -> bundles with the controller and with its node's agent, when its deletion was asked for."""

        self.left: dict[str, list[Path]] = {}
        """UID of a pod -> bundles with its node's agent when it was gone."""

        self.writes: list[str] = []
        """What the controller has changed, without what is not the incident's."""

        self._kill_at = 0
        self._record = server.recorder.add
        server.recorder.add = self._recorded
        self._controller: subprocess.Popen[bytes] | None = None
        for kind in ("pods", INCIDENTS):
            store.subscribe(kind, functools.partial(self._changed, kind))

    def _changed(self, kind: str, type_: str, obj: Object) -> None:
        self.changes.append(Change(kind, type_, obj, time.monotonic()))
        node = obj["spec"].get("nodeName") if kind == "pods" else None
        if node and deleting(obj) and uid(obj) not in self.saved:
            self.saved[uid(obj)] = self.evidence(), self.bundles(node)
        if node and type_ == "DELETED":
            self.left[uid(obj)] = self.bundles(node)

    # the controller

    def start_controller(self) -> None:
        """As a process within the cluster's network, with the rights of its service account."""
        words = [PROGRAM, "kube", "controller", "--config", str(self.settings), "--kubeconfig", str(self.kubeconfig)]
        with self.log.open("ab") as log:
            self._controller = subprocess.Popen(
                self.kubelet.fabric.network.command(words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "POD_NAMESPACE": "rankmuster"},
                start_new_session=True,
            )

    def kill_controller(self) -> None:
        """SIGKILL, to it and to all that it has started."""
        assert self._controller is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._controller.pid, signal.SIGKILL)
        self._controller.wait()

    def end_controller(self) -> int:
        """SIGTERM; its exit status."""
        assert self._controller is not None
        self._controller.terminate()
        try:
            return self._controller.wait(20)
        except subprocess.TimeoutExpired:
            self.kill_controller()
            raise

    def _recorded(self, asked: Asked) -> None:
        self._record(asked)
        if asked.user == CONTROLLER and asked.verb in WRITES and asked.resource not in ASIDE and asked.status < 300:
            self.writes.append(f"{asked.verb} {asked.resource}{'/' + asked.subresource if asked.subresource else ''}")
            if len(self.writes) == self._kill_at:
                self.kill_controller()  # it is done, and nobody was told

    def kill_at_write(self, number: int) -> None:
        """The controller dies when that change from now on is made, before it has the answer; it is not started
        again."""
        self.writes.clear()
        self._kill_at = number

    def happened(self) -> list[Event]:
        """The events of the newest incident, as the journal has them."""
        if not self.journal.exists():
            return []
        with Journal.open(f"sqlite:///{self.journal}", create=False) as journal:
            heads = journal.incidents(limit=1)
            return list(journal.events(heads[0].id)) if heads else []

    def kill_when(self, what: str, due: Callable[[list[Event]], Any], seconds: float = 60.0) -> None:
        """Kills the controller as soon as the journal says so, and starts it again."""
        self.wait(f"the controller comes to {what}", lambda: due(self.happened()), seconds)
        self.kill_controller()
        self.start_controller()

    @property
    def controller_runs(self) -> bool:
        return self._controller is not None and self._controller.poll() is None

    # what there is

    def pods(self) -> dict[str, Object]:
        return {name(one): one for one in self.store.list("pods", NAMESPACE, labels="app=llm")}

    def uids(self) -> set[str]:
        return {uid(one) for one in self.pods().values()}

    def serves(self) -> bool:
        """Both pods are ready, and the Service has the leader."""
        pods = self.pods()
        return (
            len(pods) == 2
            and all(is_true(one, "Ready") for one in pods.values())
            and bool(ready_addresses(self.cluster, NAMESPACE, "llm-serving"))
        )

    def incidents(self) -> list[Object]:
        return self.store.list(INCIDENTS, NAMESPACE)

    def progress(self) -> str:
        """What the watch of the leader's sidecar says of the instance."""
        leader = self.pods().get("llm-0") or {}
        address = (leader.get("status") or {}).get("podIP")
        try:
            status, answer = self.ask(f"{address}:{SIDECAR_PORT}", "/v1/state", token=TOKEN)
        except OSError:
            return ""
        found = json.loads(answer).get("instances") if status == 200 else []
        return next((str(one["state"]) for one in found if one["name"] == INSTANCE), "")

    def events(self, reason: str) -> list[Object]:
        return [one for one in self.store.list("events") if one.get("reason") == reason]

    def bundles(self, node: str) -> list[Path]:
        """With the agent of a node."""
        return sorted((self.kubelet.host(node) / "var/lib/rankmuster/bundles").glob("*.tar.zst"))

    def evidence(self) -> list[Path]:
        """In the controller's volume."""
        return [one for one in (self.folder / "volume").rglob("*") if one.name == "bundle" or one.suffix == ".zst"]

    def signal_rank(self, rank: int, number: int) -> None:
        """To one rank's process, from within its pod as an operator would."""
        pod = "llm-0" if rank < 2 else f"llm-0-{rank // 2}"
        words = ["sh", "-c", f"kill -{number} $(cat /tmp/engine/rank-{rank}.pid)"]
        command = self.kubelet.worker(NAMESPACE, pod).command("engine", words)
        assert command is not None
        subprocess.run(command, check=True)

    def ask(self, address: str, path: str, body: bytes | None = None, token: str = "") -> tuple[int, bytes]:
        """An HTTP request from within the cluster."""
        asked = urllib.request.Request(f"http://{address}{path}", body)
        if token:
            asked.add_header("Authorization", f"Bearer {token}")

        def call() -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(asked, timeout=5) as answer:
                    return int(answer.status), answer.read()
            except urllib.error.HTTPError as error:
                return int(error.code), error.read()

        return self.kubelet.fabric.network.run(call)

    def wait(self, what: str, predicate: Callable[[], Any], seconds: float = 60.0) -> None:
        if not self.cluster.wait_until(predicate, seconds):
            raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.told()}")

    def told(self) -> str:
        """Everything that helps to see why."""
        parts = [f"controller {'runs' if self.controller_runs else 'does not run'}:"]
        if self.log.exists():
            parts.append(self.log.read_text(errors="replace")[-6000:])
        for one in self.store.list("pods"):
            status = one.get("status") or {}
            states = [
                f"{box['name']} {box['state']} restarts {box['restartCount']}"
                for box in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
            ]
            conditions = {box["type"]: box["status"] for box in status.get("conditions") or []}
            parts.append(f"pod {name(one)} {uid(one)} {status.get('phase')} {conditions} {states}")
            if one["spec"].get("nodeName"):
                folder = self.kubelet.host(one["spec"]["nodeName"]) / "pods" / uid(one) / "logs"
                for path in sorted(folder.rglob("*.log")):
                    parts.append(f"  {path.relative_to(folder)}: {path.read_text(errors='replace')[-1500:]}")
        for one in self.store.list("jobs.batch"):
            parts.append(f"job {name(one)}: {one.get('status')}")
        for one in self.incidents():
            rows = (one.get("status") or {}).get("timeline") or []
            parts += [f"incident {name(one)}: {one.get('status', {}).get('phase')}"]
            parts += [f"  {row.get('step')} {row.get('action')} {row.get('ending')} {row.get('note')}" for row in rows]
        parts += [one[-1500:] for one in self.cluster.problems[:3]]
        return "\n".join(parts)

    def close(self) -> None:
        if self.controller_runs:
            self.kill_controller()


@contextlib.contextmanager
def standing(folder: Path, *, retest: str = "pass", nodes: int = 3) -> Iterator[Stand]:
    """All but the controller runs and serves. `retest`: what the test of a node comes to (tests/kube_fake_admit.py)."""
    clock = RealClock()
    store = Store(clock)
    kubelet = functools.partial(ProcessKubelet, folder=_made(folder / "nodes"), images=_images(folder, retest))
    with Cluster(store, clock, kubelet=kubelet) as cluster, serving(store, kubelet=cluster.kubelet) as server:
        cluster.kubelet.seen.append(str(folder / "fakes"))
        stand = Stand(folder, store, cluster, server)
        host, port = server.url.removeprefix("http://").split(":")
        cluster.kubelet.fabric.forward(PORT, (host, int(port)))
        server.access.admit("token-of-controller", CONTROLLER)
        server.access.enforced = True
        write_kubeconfig(stand.kubeconfig, f"http://{GATEWAY}:{PORT}", token="token-of-controller")
        _write_settings(stand)
        for one in range(nodes):
            cluster.kubelet.host(f"node-{one}").joinpath("var/log").mkdir(parents=True)
            cluster.node(f"node-{one}", gpus=2)
        try:
            deliver(store)
            cluster.start()
            yield stand
        finally:
            stand.close()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _images(folder: Path, retest: str) -> dict[str, Image]:
    fakes = _made(folder / "fakes")
    program = fakes / "rankmuster"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TESTS}/kube_fake_admit.py" {retest} "$@"\n')
    program.chmod(0o755)
    own = {"PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return {
        "registry.example/rankmuster": Image(["rankmuster"], environment=own),
        "registry.example/rankmuster-agent": Image(environment=own),
        "registry.example/rankmuster-admission": Image(environment={**own, "PATH": f"{fakes}:{PATH}"}),
        "engine": Image(environment=own),
    }


def _write_settings(stand: Stand) -> None:
    token = stand.folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    said = {
        "journal": f"sqlite:///{stand.journal}",
        "history": f"sqlite:///{stand.folder}/history.db",
        "folder": str(_made(stand.folder / "volume")),
        "token_file": str(token),
        "namespace": "rankmuster",
        "enable": ["traffic", "group", "node", "retest"],
        "period": 1,
        "election": {"lease_seconds": 3, "renew_seconds": 2, "retry_seconds": 0.2},
        "admission": {"job": {"image": "registry.example/rankmuster-admission:1", "profile": str(_history(stand))}},
    }
    stand.settings.write_text(yaml.safe_dump(said))


def _history(stand: Stand) -> Path:
    """Fills the history of the fleet with runs of the class that the fake test measures; the profile's file."""
    sizes = ", ".join(str(size) for size in admitted.PROFILE.steps[0].sizes)
    profile = stand.folder / "profile.yaml"
    profile.write_text(PROFILE_TEXT.format(sizes=sizes))
    admitted.fill(stand.folder / "history.db")
    return profile


def of_pods(changes: list[Change], kind: str = "pods") -> list[Change]:
    """Of the instance's."""
    return [one for one in changes if one.kind == kind and labels(one.obj).get("app") == "llm"]
