"""A kubelet without processes: containers start, get ready and end by settings, in virtual time, by the thousand.

The settings are annotations of the pod (below), or what a function of the test says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kube_sim import pod_status
from kube_sim.controllers.base import Key
from kube_sim.kubelet_base import Kubelet, grace_of, identity
from kube_sim.objects import Object, annotations, deleting, finished, is_sidecar, uid
from kube_sim.pod_status import ContainerState
from kube_sim.problems import bad_request

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

SIM = "sim.rankmuster.dev"
"""Prefix of the annotations: start, ready, stop, run (seconds), exit-code, message, log."""

BACK_OFF, MOST_BACK_OFF = 10.0, 300.0
"""Seconds before the second restart of a container, doubled up to so many; the first restart is at once."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: `start` from being bound to running, `ready` from there to ready, `stop` from the signal to the end (at
    most the grace period), `run` until the containers end by themselves with `exit_code` (None: they go on).

    `message`: of termination, `log`: what the containers have written. None for `start`: they never start.
    """

    start: float | None = 1.0
    ready: float = 1.0
    stop: float = 1.0
    run: float | None = None
    exit_code: int = 0
    message: str = ""
    log: str = ""


def by_annotations(pod: Object) -> Times:
    """`start: never` is one that hangs while it is created."""
    said = annotations(pod)

    def seconds(key: str, otherwise: float | None) -> float | None:
        text = said.get(f"{SIM}/{key}")
        return otherwise if text is None else None if text == "never" else float(text)

    return Times(
        start=seconds("start", 1.0),
        ready=seconds("ready", 1.0) or 0.0,
        stop=seconds("stop", 1.0) or 0.0,
        run=seconds("run", None),
        exit_code=int(said.get(f"{SIM}/exit-code", "0")),
        message=said.get(f"{SIM}/message", ""),
        log=said.get(f"{SIM}/log", ""),
    )


@dataclass(slots=True)
class _Held:
    """A pod that the kubelet has taken up."""

    uid: str
    times: Times
    init: list[ContainerState]
    main: list[ContainerState]
    address: str
    stopping: bool = False
    over: bool = False
    restarts: dict[str, int] = field(default_factory=dict)


class VirtualKubelet(Kubelet):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.behave: Callable[[Object], Times] = by_annotations
        self.run: Callable[[Any], int] | None = None
        """Of exec: is given `remote.Execution`, returns the exit status."""
        self._held: dict[Key, _Held] = {}

    def forget(self, key: Key) -> None:
        self._held.pop(key, None)

    def fail(self, node: str) -> None:
        super().fail(node)
        for key, held in list(self._held.items()):
            pod = self.cache.get("pods", *key)
            if pod is not None and pod["spec"].get("nodeName") == node and uid(pod) == held.uid:
                del self._held[key]

    def sync(self, key: Key, pod: Object) -> None:
        held = self._held.get(key)
        if held is None or held.uid != uid(pod):
            if deleting(pod) or finished(pod):
                if deleting(pod):
                    self.gone(pod)
                return
            if not self.admit(pod):
                return
            held = self._take_up(key, pod)
        if deleting(pod):
            if not held.stopping:
                held.stopping = True
                seconds = min(held.times.stop, grace_of(pod)) if not held.over else 0.0
                self._later(seconds, key, held, self._stopped)
        elif not held.over:
            self.gates(pod)

    def _take_up(self, key: Key, pod: Object) -> _Held:
        times = self.behave(pod)
        init, main = pod_status.containers_of(pod)
        held = _Held(uid(pod), times, init, main, self.addresses.pod(pod["spec"]["nodeName"]))
        self._held[key] = held
        self._write(key, held)
        if times.start is not None:
            self._later(times.start, key, held, self._started)
        return held

    def _later(self, seconds: float, key: Key, held: _Held, call: Callable[[Key, _Held], None]) -> None:
        """Only if the pod is still held then."""

        def due() -> None:
            if self._held.get(key) is held:
                call(key, held)

        self.work.after(seconds, due)

    def _started(self, key: Key, held: _Held) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or held.stopping:
            return
        for one in [*held.init, *held.main]:
            one.started_at = self.now
            one.identity = identity(pod, one.spec["name"], one.restarts)
        for one in held.init:
            if is_sidecar(one.spec):
                one.ready = True
            else:
                one.ended(self.now, 0)
        self._write(key, held)
        self._later(held.times.ready, key, held, self._readied)
        if held.times.run is not None:
            self._later(held.times.run, key, held, self._ran_out)

    def _readied(self, key: Key, held: _Held) -> None:
        for one in held.main:
            one.ready = one.running
        self._write(key, held)

    def _ran_out(self, key: Key, held: _Held) -> None:
        for one in held.main:
            self._container_ended(key, held, one, held.times.exit_code, "", held.times.message)

    def _stopped(self, key: Key, held: _Held) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or uid(pod) != held.uid:
            return
        self._end(held, 143)
        held.over = True
        self._write(key, held)
        self.gone(pod)

    def _end(self, held: _Held, exit_code: int) -> None:
        for one in [*held.main, *held.init]:
            if one.running:
                one.ended(self.now, exit_code)

    def end_all(self, pod: Object) -> None:
        held = self._held.get((pod["metadata"].get("namespace"), pod["metadata"]["name"]))
        if held is not None:
            self._end(held, 137)
            held.over = True

    # -- what tests do to containers

    def crash(
        self,
        space: str,
        its_name: str,
        container: str | None = None,
        exit_code: int = 1,
        reason: str = "",
        message: str = "",
    ) -> None:
        """A container ends by itself; None: the first one."""
        held = self._held[(space, its_name)]
        found = next(one for one in [*held.main, *held.init] if container in (None, one.spec["name"]))
        assert found.running, f"container {found.spec['name']} of {space}/{its_name} does not run"
        self._container_ended((space, its_name), held, found, exit_code, reason, message)

    def unready(self, space: str, its_name: str, *, ready: bool = False) -> None:
        """Its readiness probe says so from now on."""
        held = self._held[(space, its_name)]
        for one in held.main:
            one.ready = ready and one.running
        self._write((space, its_name), held)

    def log(self, wish: Any) -> Iterable[bytes]:
        """As the API server asks: what `Times` says."""
        held = self._held.get((wish.pod["metadata"]["namespace"], wish.pod["metadata"]["name"]))
        return [held.times.log.encode()] if held and held.times.log else []

    def execute(self, call: Any) -> int:
        """As the API server asks; nothing runs here unless a test says what."""
        if self.run is None:
            raise bad_request("nothing runs in simulated containers")
        return self.run(call)

    def _container_ended(
        self, key: Key, held: _Held, one: ContainerState, exit_code: int, reason: str, message: str
    ) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or not one.running:
            return
        one.ended(self.now, exit_code, reason, message)
        policy = "Always" if is_sidecar(one.spec) else pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and exit_code != 0):
            count = held.restarts[one.spec["name"]] = held.restarts.get(one.spec["name"], 0) + 1
            seconds = 0.0 if count == 1 else min(BACK_OFF * 2 ** (count - 2), MOST_BACK_OFF)
            one.waiting = "CrashLoopBackOff" if seconds else ""
            self._later(seconds, key, held, lambda k, h: self._again(k, h, one))
        elif pod_status.phase_of(held.init, held.main, policy) in ("Succeeded", "Failed"):
            held.over = True
            for sidecar in held.init:
                if sidecar.running:
                    sidecar.ended(self.now, 0)
        self._write(key, held)

    def _again(self, key: Key, held: _Held, one: ContainerState) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or held.stopping or held.over:
            return
        one.again(self.now)
        one.identity = identity(pod, one.spec["name"], one.restarts)
        self._write(key, held)
        self._later(held.times.ready, key, held, self._readied)
        if held.times.run is not None and not is_sidecar(one.spec):
            code = held.times.exit_code
            self._later(
                held.times.run, key, held, lambda k, h: self._container_ended(k, h, one, code, "", h.times.message)
            )

    def _write(self, key: Key, held: _Held) -> None:
        pod = self.cache.get("pods", *key)
        if pod is None or uid(pod) != held.uid:
            return

        def change(current: Object) -> None:
            self.begun(current, held.address)
            pod_status.write(current, held.init, held.main, self.now)

        self.status(pod, change)
