"""A kubelet whose containers are processes of this machine, in namespaces for pids, mounts, host name and network.

All nodes are this machine; each has a folder as its disk, an address, and a pid namespace in which those of its pods
lie. Users, capabilities, limits and cgroups are not there; Services have no address of their own, and names stand in
/etc/hosts. An image is the machine's own file system with an entry point.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kube_sim.controllers.base import Key
from kube_sim.kubelet_base import Kubelet
from kube_sim.objects import Object, deleting, finished, is_true, name, namespace, uid
from kube_sim.pod_network import Fabric, Network
from kube_sim.pod_process import Namespace
from kube_sim.pod_worker import PodWorker, run_exec
from kube_sim.problems import ApiProblem, bad_request

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

REPOSITORY = Path(__file__).parents[2]
PATH = f"{sysconfig.get_path('scripts')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Image:
    entrypoint: Sequence[str] = ()
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})


class ProcessKubelet(Kubelet):
    real = True

    def __init__(self, cluster: Cluster, folder: Path, images: Mapping[str, Image] | None = None) -> None:
        """`images`: by name; one that is not there has no entry point."""
        super().__init__(cluster)
        self._folder, self._images = folder, dict(images or {})
        self._nodes: dict[str, Namespace] = {}
        self._networks: dict[str, Network] = {}
        self.fabric = Fabric()
        self._workers: dict[Key, PodWorker] = {}
        self._lock = threading.Lock()
        self.hosts = folder / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n", encoding="utf-8")
        self.seen = sorted({str(REPOSITORY), sys.prefix, sys.base_prefix})
        """Of the machine, also where a container has a folder of its own above."""

    def image(self, its_name: str) -> Image:
        return self._images.get(its_name) or self._images.get(its_name.rpartition(":")[0]) or Image()

    # nodes

    def host(self, node: str) -> Path:
        """The disk of a node."""
        return self._folder / "nodes" / node

    def _node(self, node: str) -> Namespace:
        if node not in self._nodes:
            self.host(node).mkdir(parents=True, exist_ok=True)
            self._nodes[node] = Namespace()
            self._networks[node] = self.fabric.attach(self.addresses.node(node))
        return self._nodes[node]

    def fail(self, node: str) -> None:
        super().fail(node)
        for key, worker in list(self._workers.items()):
            if worker.pod["spec"].get("nodeName") == node:
                del self._workers[key]
                worker.lose()
        if node in self._nodes:
            self._nodes.pop(node).close()
            self._networks.pop(node).close()

    def close(self) -> None:
        for worker in self._workers.values():
            worker.lose()
        for worker in self._workers.values():
            worker.join()
        for one in [*self._nodes.values(), *self._networks.values()]:
            one.close()
        self._nodes.clear()
        self._networks.clear()
        self.fabric.close()

    # pods

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return ((namespace(obj), name(obj)),)

    def forget(self, key: Key) -> None:
        worker = self._workers.pop(key, None)
        if worker is not None:
            worker.lose()
        self._write_hosts()

    def sync(self, key: Key, pod: Object) -> None:
        worker = self._workers.get(key)
        if worker is not None and worker.uid != uid(pod):
            self.forget(key)
            worker = None
        if worker is None:
            if deleting(pod):
                self.gone(pod)
                return
            if finished(pod) or not self.admit(pod):
                return
            node = pod["spec"]["nodeName"]
            folder = self.host(node) / "pods" / uid(pod)
            folder.mkdir(parents=True, exist_ok=True)
            held = self._node(node)
            if pod["spec"].get("hostNetwork"):
                address, network = self.addresses.node(node), self._networks[node]
            else:
                address = self.addresses.pod(node)
                network = self.fabric.attach(address)
            self._workers[key] = PodWorker(self, pod, held, self.host(node), folder, address, network)
        else:
            worker.wake(pod)
        self._write_hosts()

    def end_all(self, pod: Object) -> None:
        worker = self._workers.pop((namespace(pod), name(pod)), None)
        if worker is not None:
            worker.lose()

    def worker(self, space: str, its_name: str) -> PodWorker:
        return self._workers[(space, its_name)]

    def _write_hosts(self) -> None:
        """The cluster's names, as every container sees them: of pods with a subdomain, and of headless Services."""
        lines = ["127.0.0.1 localhost"]
        pods = self.cache.all("pods")
        for pod in pods:
            address = (pod.get("status") or {}).get("podIP")
            host, below, space = pod["spec"].get("hostname"), pod["spec"].get("subdomain"), namespace(pod)
            if address and not finished(pod):
                lines.append(f"{address} {name(pod)}")
                if host and below:
                    base = f"{host}.{below}.{space}"
                    lines.append(f"{address} {host}.{below} {base} {base}.svc {base}.svc.cluster.local")
        for service in self.cache.all("services"):
            selector, space = service["spec"].get("selector") or {}, namespace(service)
            for pod in pods:
                of = pod["metadata"].get("labels") or {}
                address = (pod.get("status") or {}).get("podIP")
                fits = selector and namespace(pod) == space and all(of.get(key) == selector[key] for key in selector)
                if fits and address and (service["spec"].get("publishNotReadyAddresses") or is_true(pod, "Ready")):
                    base = f"{name(service)}.{space}"
                    lines.append(f"{address} {base} {base}.svc {base}.svc.cluster.local")
        text = "\n".join(lines) + "\n"
        with self._lock:
            if self.hosts.read_text(encoding="utf-8") != text:
                with self.hosts.open("r+", encoding="utf-8") as handle:  # the same file: it is mounted
                    handle.write(text)
                    handle.truncate()

    # what the API server asks of it

    def execute(self, call: Any) -> int:
        """`call`: remote.Execution."""
        worker = self._found(call.pod)
        words = worker.command(call.container, call.command)
        if words is None:
            raise bad_request(f"container {call.container} of pod {name(call.pod)} is not running")
        process = run_exec(words)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        threads = [
            threading.Thread(target=_feed, args=(process, call), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr, call.write_error), daemon=True),
        ]
        for one in threads:
            one.start()
        try:
            _pump(process.stdout, call.write)
        except BrokenPipeError:
            process.terminate()
            raise
        threads[1].join()
        return process.wait()

    def log(self, wish: Any) -> Iterator[bytes]:
        """`wish`: remote.LogWish."""
        worker = self._found(wish.pod)
        state = next(
            one
            for one in [*worker.main, *worker.init, *worker.ephemeral]
            if one.spec["name"] == wish.container
        )  # fmt: skip
        number = state.restarts - (1 if wish.previous else 0)
        if number < 0:
            raise bad_request(f"previous terminated container {wish.container!r} in pod {name(wish.pod)!r} not found")
        path = worker.log_of(wish.container, number)
        return _read_log(path, wish, worker)

    def _found(self, pod: Object) -> PodWorker:
        worker = self._workers.get((namespace(pod), name(pod)))
        if worker is None or worker.uid != uid(pod):
            raise ApiProblem(
                500, "InternalError", f"the kubelet of {pod['spec'].get('nodeName')} does not know this pod"
            )
        return worker


def _feed(process: subprocess.Popen[bytes], call: Any) -> None:
    assert process.stdin is not None
    try:
        while piece := call.read():
            process.stdin.write(piece)
            process.stdin.flush()
        process.stdin.close()
    except OSError:
        return


def _pump(source: Any, write: Any) -> None:
    while piece := source.read1(65536):
        write(piece)


def _read_log(path: Path, wish: Any, worker: PodWorker) -> Iterator[bytes]:
    content = path.read_bytes() if path.exists() else b""
    if wish.tail is not None:
        content = b"".join(content.splitlines(keepends=True)[-wish.tail :] if wish.tail else [])
    at = path.stat().st_size if path.exists() else 0
    if content:
        yield content
    while wish.follow:
        running = worker.running.get(wish.container)
        over = running is None or running.over.is_set()
        with path.open("rb") as handle:
            handle.seek(at)
            more = handle.read()
        at += len(more)
        if more:
            yield more
        elif over:
            return
        else:
            time.sleep(0.05)
