"""A controller of a fleet: 5,000 nodes, 1,000 instances of 8 pods, and 200 of them that stop at once.

    python tools/kube_scale.py --output docs/measured/kube-scale.json

The cluster is simulated in a process of its own (`tests/kube_sim`: API server, scheduler, LeaderWorkerSets, kubelets in
real time), the sidecars are played there too; the controller is the real one, with its journal in a file, as a process
whose memory is read from /proc. Evidence is asked for and not there: what is measured is the controller, not `collect`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

GATE = "rankmuster.dev/serving"
SIDECAR_PORT = 9465
METRICS = "127.0.0.1:9479"


# -- the world: a process of its own


class Sidecars(ThreadingHTTPServer):
    """One listener for all pods: every loopback address is this host, and tells which pod is meant."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, stopped: dict[str, float], begun: float) -> None:
        self.stopped, self.begun, self.asked = stopped, begun, 0
        super().__init__(("0.0.0.0", SIDECAR_PORT), _Answer)  # of this host alone


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # a caller that would not wait
            super().handle()

    def do_GET(self) -> None:
        server: Any = self.server
        uid = self.headers.get("X-Rankmuster-Pod-Uid", "")
        server.asked += 1
        since = server.stopped.get(uid)
        instance = {
            "name": "played",
            "state": "advancing" if since is None else "stopped",
            "since": since or server.begun,
            "reason": "played",
            "incarnation": f"watch:{uid}",
        }
        self._say(200, snapshot(instance))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._say(503, b'{"error": "there is no evidence in a simulated pod"}')

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Loopback:
    """Addresses of pods and nodes: all of this host, no two alike."""

    def __init__(self) -> None:
        self._count = 0
        self._nodes: dict[str, str] = {}

    def node(self, name: str) -> str:
        number = len(self._nodes)
        return self._nodes.setdefault(name, f"127.{200 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}")

    def pod(self, node: str) -> str:
        self.node(node)
        self._count += 1
        number = self._count
        return f"127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"


def snapshot(instance: dict[str, Any]) -> bytes:
    from rankmuster.model.fault import Progress
    from rankmuster.watch.export.snapshot_json import to_json
    from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

    view = InstanceView(
        instance["name"],
        Progress(instance["state"]),
        instance["since"],
        instance["reason"],
        incarnation=instance["incarnation"],
    )
    return json.dumps(to_json(Snapshot("pod", time.time(), WatcherView("1", 0.0, 5.0), (view,)))).encode()


def world(nodes: int, instances: int, size: int) -> None:
    """Says what happens as JSON lines; takes orders on standard input: {"stop": N}, {"tell": true}, {"end": true}."""
    from kube_sim.clock import VirtualClock
    from kube_sim.cluster import Cluster
    from kube_sim.controllers import ALL
    from kube_sim.controllers.endpoint_slice import EndpointSlices
    from kube_sim.running import serving
    from kube_sim.store import Store
    from rankmuster.kube.crd.render import definitions

    virtual = VirtualClock()
    now: list[Callable[[], float]] = [virtual]
    store = Store(lambda: now[0](), history=400_000)
    for one in definitions():
        store.create(one)
    for name in ("prod", "rankmuster"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    addresses: Any = Loopback()
    # the simulator's own work on EndpointSlices grows with the square of the fleet, and nobody routes here
    kept = [one for one in ALL if one is not EndpointSlices]
    with Cluster(store, virtual, controllers=kept) as cluster:
        cluster.kubelet.addresses = addresses
        for number in range(nodes):
            cluster.node(f"node-{number:05d}")
        for number in range(instances):
            store.create(workload(f"llm-{number:04d}", size))
        wanted = instances * size

        def up() -> bool:
            pods = cluster.cache.all("pods")
            return len(pods) == wanted and all(one.get("status", {}).get("phase") == "Running" for one in pods)

        if not cluster.run_until(up, 3600):
            raise SystemExit("the simulated cluster did not come up")
    now[0] = time.time
    stopped: dict[str, float] = {}
    sidecars = Sidecars(stopped, time.time())
    threading.Thread(target=sidecars.serve_forever, daemon=True).start()
    deletes: Counter[str] = Counter()
    store.subscribe("pods", lambda type_, one: _count(deletes, type_, one))
    with serving(store) as server, Cluster(store, time.time, controllers=kept) as cluster:
        cluster.kubelet.addresses = addresses
        cluster.start()
        say(url=server.url)
        for line in sys.stdin:
            order = json.loads(line)
            if "policy" in order:
                store.create(order["policy"])
                server.recorder.clear()
                say(done=True)
            elif "stop" in order:
                at = time.time()
                names = {f"llm-{number:04d}" for number in range(order["stop"])}
                for one in store.list("pods", "prod"):
                    if one["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/name") in names:
                        stopped[one["metadata"]["uid"]] = at
                deletes.clear()
                server.recorder.clear()
                say(done=True)
            elif "heal" in order:
                stopped.clear()
                for one in store.list("pods", "prod"):
                    if _gate(one) == "False":  # closed by the run before, whose journal is gone
                        status = {"conditions": [{"type": GATE, "status": "True"}]}
                        place = ("pods", "prod", one["metadata"]["name"])
                        store.patch(*place, {"status": status}, kind="strategic", subresource="status")
                say(done=True)
            elif "tell" in order:
                calls = Counter(" ".join(one) for one in server.recorder.counts.elements())
                leaders = store.list("pods", "prod", labels="leaderworkerset.sigs.k8s.io/worker-index=0")
                say(
                    calls=dict(calls),
                    asked=sidecars.asked,
                    deleted=dict(Counter(deletes.values())),
                    again=sum(count for name, count in deletes.items() if count > 1),
                    gates=Counter(_gate(one) for one in leaders),
                )
            else:
                break


def _count(deletes: Counter[str], type_: str, one: dict[str, Any]) -> None:
    """Leaders that went, by name."""
    if type_ == "DELETED" and one["metadata"]["labels"].get("leaderworkerset.sigs.k8s.io/worker-index") == "0":
        deletes[one["metadata"]["name"]] += 1


def _gate(one: dict[str, Any]) -> str:
    found = (each["status"] for each in one.get("status", {}).get("conditions", ()) if each["type"] == GATE)
    return next(found, "absent")


def workload(name: str, size: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "llm"}},
        "spec": {
            "readinessGates": [{"conditionType": GATE}],
            "initContainers": [{"name": "rankmuster", "image": "sidecar", "restartPolicy": "Always"}],
            "containers": [
                {"name": "engine", "image": "engine", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
            ],
        },
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "prod", "labels": {"app": "llm"}},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "workerTemplate": template,
            },
        },
    }


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


# -- the measurement


POLICY = {
    "apiVersion": "rankmuster.dev/v1alpha1",
    "kind": "CommunicationPolicy",
    "metadata": {"name": "fleet", "namespace": "prod"},
    "spec": {
        "selector": {"matchLabels": {"app": "llm"}},
        "several": True,
        "enable": ["traffic", "group"],
        "undecided": "rebuild",
        "traffic": {"readinessGate": True},
    },
}


class World:
    def __init__(self, given: argparse.Namespace) -> None:
        counts = [str(given.nodes), str(given.instances), str(given.size)]
        command = [sys.executable, str(Path(__file__)), "--world", *counts]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._line()["url"]

    def order(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the simulated cluster has ended")
        found: dict[str, Any] = json.loads(line)
        return found


class Controller:
    """The real one, as a process; `most`: its greatest resident memory in MB."""

    def __init__(self, folder: Path, url: str, limits: dict[str, Any]) -> None:
        from kube_sim.running import write_kubeconfig

        settings = {
            "enable": ["traffic", "group"],
            "namespace": "rankmuster",
            "folder": str(folder),
            "listen": METRICS,
            "token_file": str(folder / "token"),
            "limits": limits,
        }
        (folder / "token").write_text("played\n")
        (folder / "settings.yaml").write_text(json.dumps(settings))
        write_kubeconfig(folder / "kubeconfig", url)
        command = [sys.executable, "-c", "from rankmuster.cli.main import run; run()", "kube", "controller"]
        command += ["--config", str(folder / "settings.yaml"), "--kubeconfig", str(folder / "kubeconfig")]
        self.log = folder / "controller.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    @property
    def most(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        return int(found[1]) / 1000 if found else 0.0

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def page(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        print(f"the controller ended after {time.monotonic() - begun:.0f} s", flush=True)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    begun = time.monotonic()
    world_ = World(given)
    print(f"the simulated cluster is up after {time.monotonic() - begun:.0f} s", flush=True)
    world_.order(policy=POLICY)
    found: dict[str, Any] = {
        "nodes": given.nodes,
        "instances": given.instances,
        "pods": given.instances * given.size,
        "stopped": given.stopped,
        "at_once": given.at_once,
        "runs": [],
    }
    limits = {"instances": given.instances, "nodes": given.nodes}
    wide = {**limits, "rebuilds_at_once": given.at_once, "breaker_instances": 1_000, "breaker_share": 1.0}
    for name, these in (("default", limits), ("wide", wide)):
        world_.order(heal=True)
        with tempfile.TemporaryDirectory() as folder:
            ran = _run(world_, Path(folder), these, given, name)
            found["runs"].append({"limits": name, **ran, "not_recovered": _why(Path(folder))})
    world_.process.terminate()
    return found


def _why(folder: Path) -> dict[str, int]:
    """Of the incidents that were closed and did not recover: how many for which reason, by the journal."""
    from rankmuster.model.incident import EventKind, Outcome
    from rankmuster.store.journal import Journal

    found: Counter[str] = Counter()
    with Journal.open(str(folder / "incidents.db"), create=False) as journal:
        for head in journal.incidents():
            if head.outcome is None or head.outcome is Outcome.RECOVERED:
                continue
            bad = [
                f"{event.step.value}: {event.ending.value}: {str(event.data.get('said') or event.data)[:160]}"
                for event in journal.events(head.id)
                if event.kind is EventKind.STEP_ENDED and event.step and event.ending and not event.ending.good
            ]
            found[f"{head.outcome.value}: {' | '.join(bad) or 'no step failed'}"[:400]] += 1
    return dict(found.most_common())


def _run(world_: World, folder: Path, limits: dict[str, Any], given: argparse.Namespace, name: str) -> dict[str, Any]:
    controller = Controller(folder, world_.url, limits)
    begun = time.monotonic()
    try:
        _until(lambda: world_.order(tell=True)["gates"].get("True", 0) == given.instances, 600, controller)
        ready, quiet_cpu = time.monotonic() - begun, controller.cpu
        time.sleep(30)
        idle = {"seconds_to_all_open": ready, "memory_mb": controller.most, "cores": (controller.cpu - quiet_cpu) / 30}
        print(f"{name}: all gates are open after {ready:.0f} s, {idle}", flush=True)
        world_.order(stop=given.stopped)
        at = time.monotonic()
        samples: list[dict[str, float]] = []

        def over() -> bool:
            page = controller.page()
            samples.append(page)
            closed = sum(value for key, value in page.items() if key.startswith("rankmuster_incident_closed_total"))
            return closed >= given.stopped

        seconds = given.seconds if name == "wide" else given.held_seconds
        done = _until(over, seconds, controller, must=False)
        told = world_.order(tell=True)
        pages = samples[-1]
        outcomes = {
            key.partition('outcome="')[2].partition('"')[0]: 0.0
            for key in pages
            if key.startswith("rankmuster_incident_closed_total")
        }
        for key, value in pages.items():
            if key.startswith("rankmuster_incident_closed_total"):
                outcomes[key.partition('outcome="')[2].partition('"')[0]] += value
        opened = sum(value for key, value in pages.items() if key.startswith("rankmuster_incident_opened_total"))
        calls = {key: count for key, count in told["calls"].items() if not key.endswith((" watch",))}
        return {
            **idle,
            "seconds": time.monotonic() - at,
            "all_closed": done,
            "opened": opened,
            "closed": sum(value for key, value in pages.items() if key.startswith("rankmuster_incident_closed_total")),
            "outcomes": {name: count for name, count in outcomes.items() if count},
            "breaker_opened": any(page.get("rankmuster_incident_breaker_open") == 1.0 for page in samples),
            "groups_deleted": sum(told["deleted"].values()),
            "deleted_twice": told["again"],
            "memory_mb_most": controller.most,
            "queue_most": max(
                value for page in samples for key, value in page.items() if key.startswith("rankmuster_kube_queue")
            ),
            "calls": sum(calls.values()),
            "calls_per_incident": sum(calls.values()) / max(opened, 1),
            "calls_by_kind": dict(sorted(calls.items(), key=lambda one: -one[1])[:16]),
        }
    finally:
        if controller.process.poll() is not None:
            print(controller.log.read_text()[-4000:])
        controller.end()
        print(controller.log.read_text()[-1500:])


def _until(what: Callable[[], Any], seconds: float, controller: Controller, must: bool = True) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if controller.process.poll() is not None:
            raise SystemExit(f"the controller has ended: {controller.log.read_text()[-3000:]}")
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(2.0)
    if must:
        raise SystemExit(f"it did not come: {controller.log.read_text()[-3000:]}")
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--stopped", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=20, help="rebuilds at once in the second run")
    parser.add_argument("--seconds", type=float, default=420.0, help="that a burst is waited for")
    parser.add_argument("--held-seconds", type=float, default=120.0, help="the same, of the run that limits hold")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if given.world:
        world(*given.world)
        return
    found = measure(given)
    print(json.dumps(found, indent=1))
    if given.output is not None:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
