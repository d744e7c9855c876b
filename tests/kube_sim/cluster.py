"""A simulated cluster over a store: nodes, scheduler, controllers and kubelets, in virtual time or the machine's own.

It cannot prove what it does not have: networks, volumes that are claimed, admission plugins, the API server's own
caches, and how late real controllers are. What it has follows the sources of the controllers that it stands for.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kube_sim.cache import Cache
from kube_sim.clock import VirtualClock
from kube_sim.controllers.base import Controller
from kube_sim.objects import Object
from kube_sim.work import Work

TOO_MUCH = 2_000_000
"""Reconciliations without time going on: controllers that work against each other."""


class Cluster:
    def __init__(
        self,
        store: Any,
        clock: Callable[[], float] | None = None,
        *,
        controllers: Sequence[type[Controller]] | None = None,
        kubelet: Callable[[Cluster], Any] | None = None,
        seed: int = 1,
    ) -> None:
        """`controllers` None: all of them. `kubelet`: makes the one for all nodes; None: a virtual one."""
        from kube_sim.controllers import ALL
        from kube_sim.kubelet import VirtualKubelet

        self.store = store
        self.clock: Callable[[], float] = clock or VirtualClock()
        self.random = random.Random(seed)
        self.cache = Cache()
        self.work = Work(self.clock)
        self.kubelet = (kubelet or VirtualKubelet)(self)
        self.controllers: list[Controller] = [one(self) for one in (ALL if controllers is None else controllers)]
        self.controllers.append(self.kubelet)
        self._watchers: dict[str, list[Controller]] = {}
        for one in self.controllers:
            for kind in one.watches:
                self._watchers.setdefault(kind, []).append(one)
        self.problems: list[str] = []
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._seen = 0
        self._seeing = threading.Condition()
        with store.still():
            self._unsubscribe = store.follow(None, self._changed)
            for info in store.kinds():
                for obj in store.rows(info.key):
                    self._take_in(info.key, "ADDED", obj)
            self._seen = store.resource_version

    def _changed(self, change: Any) -> None:
        """Runs in a writer's thread, in the store's order: it only notes what has to be looked at."""
        if change.version > self._seen:
            self._take_in(change.place.key, change.kind, change.after)
            with self._seeing:
                self._seen = change.version
                self._seeing.notify_all()

    def caught_up(self, version: int) -> None:
        """Waits until the cache has what was written: with several writers one of them tells for all."""
        with self._seeing:
            assert self._seeing.wait_for(lambda: self._seen >= version, 30), "the store has not told of a change"

    def _take_in(self, kind: str, type_: str, obj: Object) -> None:
        before = self.cache.changed(kind, type_, obj)
        for controller in [*self._watchers.get(kind, ()), *self._watchers.get("*", ())]:
            for key in controller.keys(kind, type_, obj, before):
                self.work.add(controller, key)

    def admit_pod(self, pod: Object) -> None:
        """What webhooks of operators add to pods."""
        from kube_sim.controllers.leader_worker_set import admit_pod

        admit_pod(pod)

    # -- nodes

    def node(
        self,
        name: str,
        gpus: int = 8,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> Object:
        """A node that joins."""
        return self.kubelet.join(name, gpus, dict(labels or {}), [dict(one) for one in taints], dict(annotations or {}))

    def fail_node(self, name: str) -> None:
        """Its kubelet and all that runs on it are gone at once; the cluster learns of it when its grace has passed."""
        self.kubelet.fail(name)

    def revive_node(self, name: str) -> None:
        self.kubelet.revive(name)

    # -- time

    def step(self) -> bool:
        """Does one thing that is due now; whether there was one."""
        call = self.work.take()
        if call is None:
            return False
        call()
        return True

    def settle(self) -> None:
        """Everything that is due now."""
        for _ in range(TOO_MUCH):
            if not self.step():
                return
        raise AssertionError("controllers work against each other: it does not settle")

    def run_until(self, predicate: Callable[[], Any], seconds: float = 600.0) -> bool:
        """In virtual time: until `predicate` holds, or so much time has passed; whether it holds."""
        assert isinstance(self.clock, VirtualClock), "real time passes by itself: wait_until"
        end = self.clock() + seconds
        while True:
            self.settle()
            if predicate():
                return True
            due = self.work.next_at
            if due is None or due > end:
                self.clock.advance_to(end)
                self.settle()
                return bool(predicate())
            self.clock.advance_to(due)

    def run(self, seconds: float) -> None:
        """So much virtual time."""
        self.run_until(lambda: False, seconds)

    def start(self) -> None:
        """A thread that does what is due, as the clock goes."""
        self._thread = threading.Thread(target=self._loop, name="cluster", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self.step():
                    due = self.work.next_at
                    self.work.wait(0.2 if due is None else min(0.2, max(0.0, due - self.clock())))
            except Exception:
                self.problems.append(traceback.format_exc())

    def wait_until(self, predicate: Callable[[], Any], seconds: float = 30.0) -> bool:
        """Of the machine's own time, with the thread running."""
        end = time.monotonic() + seconds
        while not predicate():
            if time.monotonic() > end:
                return bool(predicate())
            time.sleep(0.02)
        return True

    def stop(self) -> None:
        """Ends the thread and whatever the kubelet has started."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(10)
        self._unsubscribe()
        self.kubelet.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
