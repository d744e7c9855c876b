"""One pod of a process kubelet, from its start to its end, in a thread of its own.

Init containers one after the other, native sidecars before what stands below them, then the others; restarts by
policy with growing pauses; at the end preStop, SIGTERM, and SIGKILL when the grace period is over, sidecars last.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kube_sim import pod_status
from kube_sim.kubelet_base import grace_of
from kube_sim.objects import Object, is_sidecar, name, namespace, uid
from kube_sim.pod_files import NotYet, Volumes
from kube_sim.pod_network import Network
from kube_sim.pod_probes import Probing, ask
from kube_sim.pod_process import Namespace, Running, Start, start
from kube_sim.pod_start import message_of, start_of
from kube_sim.pod_status import ContainerState

if TYPE_CHECKING:
    from kube_sim.kubelet_process import ProcessKubelet

BACK_OFF, MOST_BACK_OFF = 10.0, 300.0
LEAST_SECONDS = 2.0
"""That sidecars get at the end, however little the others have left of the grace period."""

MESSAGE = 4096


class Lost(Exception):
    """The node is gone, or the pod was removed by force."""


class PodWorker:
    """`wake` where the pod has changed; `lose` where nothing of it is to be told any more."""

    def __init__(
        self,
        kubelet: ProcessKubelet,
        pod: Object,
        node: Namespace,
        host: Path,
        folder: Path,
        ip: str,
        network: Network,
    ) -> None:
        self._kubelet, self._node, self._host, self._folder = kubelet, node, host, folder
        self.network = network
        self.pod, self.address, self.uid = pod, ip, uid(pod)
        self.init, self.main = pod_status.containers_of(pod)
        self.ephemeral: list[ContainerState] = []
        self.running: dict[str, Running] = {}
        self._probing: dict[str, Probing] = {}
        self._again_at: dict[str, float] = {}
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._volumes: Volumes | None = None
        self._sandbox: Namespace | None = None
        self._lost = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name=f"pod {name(pod)}", daemon=True)
        self._thread.start()

    # from outside

    def wake(self, pod: Object) -> None:
        self._events.put(lambda: self._changed(pod))

    def lose(self) -> None:
        """All of it dies now."""
        self._lost.set()
        self._events.put(lambda: None)
        for one in list(self.running.values()):
            one.kill()

    def join(self) -> None:
        self._thread.join(20)

    # its life

    def _work(self) -> None:
        try:
            self._live()
        except Lost:
            pass
        except Exception:
            self._kubelet.cluster.problems.append(f"pod {name(self.pod)}: {traceback.format_exc()}")
        finally:
            for probing in self._probing.values():
                probing.close()
            for one in list(self.running.values()):
                one.kill()
            if self._sandbox is not None:
                self._sandbox.close()
            if not self.pod["spec"].get("hostNetwork"):
                self.network.close()

    def _live(self) -> None:
        self._write()
        while self._volumes is None and not self._deleted:
            try:
                self._volumes = Volumes(self.pod, self._folder, self._host, self._kubelet.store)
            except NotYet:
                self._step(0.5)
        if self.pod["spec"].get("shareProcessNamespace") and not self._deleted:
            self._sandbox = Namespace(self._node)
        if not self._deleted and self._initialize():
            for one in self.main:
                self._start(one)
            self._write()
            while not self._deleted and not self._over:
                self._step(self._pause())
        if self._deleted:
            self._end(grace_of(self.pod))
            self._write(None if not self._over else self._phase)
            self._kubelet.gone(self.pod)
            return
        phase = self._phase
        self._stop_sidecars(grace_of(self.pod))
        self._write(phase)
        self._ending = True
        while not self._deleted:
            self._step(None)
        self._kubelet.gone(self.pod)

    @property
    def _deleted(self) -> bool:
        return bool(self.pod["metadata"].get("deletionTimestamp"))

    @property
    def _phase(self) -> str:
        return pod_status.phase_of(self.init, self.main, self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def _over(self) -> bool:
        return self._phase in ("Succeeded", "Failed")

    def _step(self, seconds: float | None) -> None:
        """Waits for something, and does it."""
        with contextlib.suppress(queue.Empty):
            self._events.get(timeout=seconds)()
        if self._lost.is_set():
            raise Lost
        for one in [*self.init, *self.main]:
            due = self._again_at.get(one.spec["name"])
            if due is not None and due <= time.monotonic() and not self._ending:
                del self._again_at[one.spec["name"]]
                self._start(one)
                self._write()

    def _pause(self) -> float | None:
        return max(0.0, min(self._again_at.values()) - time.monotonic()) if self._again_at else None

    def _changed(self, pod: Object) -> None:
        self.pod = pod
        if self._volumes is not None:
            self._volumes.renew(pod)
        known = {one.spec["name"] for one in self.ephemeral}
        for spec in pod["spec"].get("ephemeralContainers") or []:
            if spec["name"] not in known and not self._ending and self._volumes is not None:
                self.ephemeral.append(state := ContainerState(spec))
                self._start(state)
                self._write()
        if not self._ending:
            self._kubelet.gates(pod)

    def _initialize(self) -> bool:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        for one in self.init:
            self._start(one)
            self._write()
            while not self._deleted:
                its = one.spec["name"]
                if is_sidecar(one.spec):
                    if one.running and self._probing[its].started:
                        break
                elif one.ended_at is not None and one.exit_code == 0:
                    break
                elif one.ended_at is not None and policy == "Never":
                    return False
                self._step(0.05 if is_sidecar(one.spec) else self._pause())
            if self._deleted:
                return False
        return True

    # containers

    def _start(self, one: ContainerState) -> None:
        spec, its = one.spec, str(one.spec["name"])
        if one.ended_at is not None:
            one.again(self._kubelet.now)
        else:
            one.started_at = self._kubelet.now
        one.identity = f"sim://{self.uid}/{its}/{one.restarts}"
        try:
            wish = self._wish(one)
            message = message_of(wish)
            running = start(wish, lambda it: self._events.put(lambda: self._ended(one, it, message)))
        except (NotYet, OSError, KeyError) as error:
            one.ended(self._kubelet.now, 128, "StartError", str(error))
            self._again(one)
            return
        self.running[its] = running
        self._probing[its] = Probing(
            spec,
            self.address,
            running.command,
            lambda ready: self._events.put(lambda: self._readied(one, running, ready)),
            lambda why: self._events.put(lambda: self._kill_one(one, running)),
            self.network,
        )
        hook = (spec.get("lifecycle") or {}).get("postStart")
        if hook:
            self.network.run(lambda: ask({**hook, "timeoutSeconds": 30}, spec, self.address, running.command))

    def _wish(self, one: ContainerState) -> Start:
        assert self._volumes is not None
        current = {**self.pod, "status": dict(self.pod.get("status") or {})}
        self._kubelet.begun(current, self.address)  # known before the status is written
        return start_of(
            current,
            one,
            self._kubelet,
            self._volumes,
            folder=self._folder,
            log=self.log_of(str(one.spec["name"]), one.restarts),
            namespace=self._namespace(one.spec),
            network=self.network.path,
        )

    def _namespace(self, spec: Any) -> tuple[str, bool]:
        """Where it runs, and whether it shares that."""
        target = self.running.get(spec.get("targetContainerName") or "")
        if self.pod["spec"].get("hostPID"):
            return self._node.path, True
        if self._sandbox is not None:
            return self._sandbox.path, True
        if target is not None:
            return f"/proc/{target.pid}/ns/pid", True
        return self._node.path, False

    def _ended(self, one: ContainerState, running: Running, message: Path) -> None:
        its = str(one.spec["name"])
        if self.running.get(its) is not running or self._lost.is_set():
            return
        self._probing[its].close()
        text = message.read_text(errors="replace")[:MESSAGE]
        code = running.exit_code if running.exit_code is not None else 137
        if not text and code and one.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = self.log_of(its, one.restarts).read_text(errors="replace")[-2048:]
        one.ended(self._kubelet.now, code, "", text)
        if one in self.init or one in self.main:
            self._again(one)
        self._write()

    def _again(self, one: ContainerState) -> None:
        """Whether and when it is started anew."""
        policy = "Always" if is_sidecar(one.spec) else self.pod["spec"].get("restartPolicy", "Always")
        if one in self.init and not is_sidecar(one.spec):
            policy = "Never" if policy == "Never" else "OnFailure"
        if self._ending or self._deleted or policy == "Never" or (policy == "OnFailure" and one.exit_code == 0):
            return
        seconds = 0.0 if one.restarts == 0 else min(BACK_OFF * 2 ** (one.restarts - 1), MOST_BACK_OFF)
        one.waiting = "CrashLoopBackOff" if seconds else ""
        self._again_at[str(one.spec["name"])] = time.monotonic() + seconds

    def _readied(self, one: ContainerState, running: Running, ready: bool) -> None:
        if self.running.get(str(one.spec["name"])) is running and one.running and not self._deleted:
            one.ready = ready
            self._write()

    def _kill_one(self, one: ContainerState, running: Running) -> None:
        """Liveness has failed: SIGTERM, and SIGKILL after the grace."""
        if self.running.get(str(one.spec["name"])) is running and one.running:
            running.signal(signal.SIGTERM)
            timer = threading.Timer(float(self.pod["spec"].get("terminationGracePeriodSeconds", 30)), running.kill)
            timer.daemon = True
            timer.start()

    # the end

    def _end(self, grace: float) -> None:
        self._ending = True
        self._again_at.clear()
        until = time.monotonic() + grace
        living = [one for one in [*self.main, *self.ephemeral] if one.running]
        for one in living:
            threading.Thread(target=self._tell_to_end, args=(one, until), daemon=True).start()
        self._wait(living, until)
        self._stop_sidecars(max(LEAST_SECONDS, until - time.monotonic()))

    def _tell_to_end(self, one: ContainerState, until: float) -> None:
        running = self.running[str(one.spec["name"])]
        hook = (one.spec.get("lifecycle") or {}).get("preStop")
        if hook:
            seconds = max(0.1, until - time.monotonic())
            if "sleep" in hook:
                running.over.wait(min(seconds, float(hook["sleep"]["seconds"])))
            else:
                hook = {**hook, "timeoutSeconds": seconds}
                self.network.run(lambda: ask(hook, one.spec, self.address, running.command))
        running.signal(signal.SIGTERM)

    def _stop_sidecars(self, grace: float) -> None:
        """In the opposite order of their start."""
        self._ending = True
        self._again_at.clear()
        until = time.monotonic() + grace
        for one in reversed(self.init):
            if one.running:
                self._tell_to_end(one, until)
                self._wait([one], until)

    def _wait(self, those: list[ContainerState], until: float) -> None:
        """Until they have ended; by SIGKILL where the time is over. A second, shorter grace counts."""
        asked = self.pod["metadata"].get("deletionGracePeriodSeconds")
        while any(one.running for one in those):
            left = until - time.monotonic()
            again = self.pod["metadata"].get("deletionGracePeriodSeconds")
            if again is not None and asked is not None and again < asked:
                asked, until = again, min(until, time.monotonic() + float(again))
            if left <= 0:
                for one in those:
                    if one.running:
                        self.running[str(one.spec["name"])].kill()
            self._step(min(0.5, left) if left > 0 else 0.5)

    # telling

    def log_of(self, container: str, restarts: int) -> Path:
        return self._folder / "logs" / container / f"{restarts}.log"

    def _write(self, phase: str | None = None) -> None:
        if self._lost.is_set():
            return
        told = phase or ("Running" if self._over else None)

        def change(current: Object) -> None:
            self._kubelet.begun(current, self.address)
            pod_status.write(current, self.init, self.main, self._kubelet.now, told)
            if self.ephemeral:
                current["status"]["ephemeralContainerStatuses"] = [one.status() for one in self.ephemeral]

        self._kubelet.status(self.pod, change)

    def command(self, container: str, words: list[str]) -> list[str] | None:
        """What runs a command in a container; None where that does not run."""
        running = self.running.get(container)
        return None if running is None or running.over.is_set() else running.command(words)

    def __repr__(self) -> str:
        return f"<pod {namespace(self.pod)}/{name(self.pod)}>"


def run_exec(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
