"""What the sidecars' watches say of their instances, asked in turn: one sidecar an instance, none twice at once.

The leader's pod is asked first, since the engine's page is there; another one where it does not answer. A sidecar that
was not heard for a while, or whose watch does not look any more, says nothing, and nothing is concluded from silence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from rankmuster.adapters.kube.agent_wire import NoAnswer
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.seen import Seen
from rankmuster.kube.controller.fleet import Known
from rankmuster.model.kube import SIDECAR, PodView
from rankmuster.watch.export.snapshot_json import NotASnapshot, from_json
from rankmuster.watch.snapshot import InstanceView, Snapshot

ASK_SECONDS = 2.0
"""For one sidecar's answer: it has the snapshot at hand."""

STALE_PERIODS = 4.0
"""Periods after which an answer says nothing any more: two looks of the watch, and two of ours."""

SKEW_SECONDS = 60.0
"""By which a node's clock may differ before it is said."""

MOST_ASKED = 3
"""Pods of one instance that are asked in one turn."""


class Asks(Protocol):
    """What is used of `adapters.kube.agent_call.AgentCall`."""

    def state(self, pod: PodView, deadline: Deadline, *, port: int = ...) -> dict[str, Any]:
        """Raises NoAnswer."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """`received`: seconds of our clock; `at`: unix seconds by our own host's clock, at which the watch looked. `skew`:
    seconds by which the pod's clock is ahead of ours. `incarnation`: as the group of pods calls it, whatever the watch
    does. `view` None: nothing is known, and `problem` says why."""

    received: float
    at: float
    view: InstanceView | None
    pod_uid: str | None = None
    skew: float = 0.0
    problem: str = ""
    incarnation: str | None = None


class States:
    """`clock`: monotonic seconds; `unix_now`: this host's. Thread-safe."""

    def __init__(
        self,
        asks: Asks,
        *,
        period: float,
        at_once: int,
        port: int,
        clock: Clock,
        unix_now: Callable[[], float],
    ) -> None:
        self._asks, self._period, self._port = asks, period, port
        self._clock, self._unix_now = clock, unix_now
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._due: dict[str, float] = {}
        self._asked: set[str] = set()
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="sidecars")
        self._at_once = at_once

    def turn(self, known: Iterable[Known]) -> None:
        """Asks those that are due; returns at once."""
        now = self._clock()
        with self._lock:
            names = set()
            for one in known:
                names.add(one.name)
                room = len(self._asked) < 2 * self._at_once  # what does not fit is due the next time, first come
                if one.name in self._asked or now < self._due.get(one.name, 0.0) or not room:
                    continue
                self._asked.add(one.name)
                self._due[one.name] = now + self._period
                try:
                    self._pool.submit(self._ask, one)
                except RuntimeError:  # the pool is closed, or no thread is to be had
                    self._asked.discard(one.name)
            for name in [one for one in self._states if one not in names]:
                del self._states[name]
            for name in [one for one in self._due if one not in names]:
                del self._due[name]

    def state(self, name: str) -> State | None:
        """The newest; one that is too old has no view."""
        with self._lock:
            found = self._states.get(name)
        if found is None or found.view is None:
            return found
        age = self._clock() - found.received
        if age > STALE_PERIODS * self._period:
            problem = f"its sidecar has not been heard for {age:.0f} s"
            return State(found.received, found.at, None, found.pod_uid, found.skew, problem)
        return found

    def seen(self, name: str) -> Seen | None:
        """What the runbook asks the watch."""
        found = self.state(name)
        if found is None or found.view is None:
            return None
        view = found.view
        return Seen(view.state, found.incarnation, found.at, min(view.since - found.skew, found.at), view.reason)

    def close(self) -> None:
        """Asks nobody any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, one: Known) -> None:
        try:
            found = self._heard(one)
        except Exception as error:  # a thread's own end would be seen by nobody
            found = State(
                self._clock(), self._unix_now(), None, problem=f"internal error: {type(error).__name__}: {error}"
            )
        with self._lock:
            self._asked.discard(one.name)
            if one.name in self._due:
                before = self._states.get(one.name)
                kept = before is not None and before.view is not None and found.view is None
                if not kept:  # a good answer stays until it is stale
                    self._states[one.name] = found

    def _heard(self, one: Known) -> State:
        problems = []
        for pod in askable(one)[:MOST_ASKED]:
            try:
                snapshot = from_json(self._asks.state(pod, Deadline.after(ASK_SECONDS, self._clock), port=self._port))
            except NoAnswer as error:
                problems.append(str(error))
                continue
            except NotASnapshot as error:
                problems.append(f"pod {pod.name}: its sidecar's answer is no snapshot: {error}")
                continue
            return self._state(one, pod, snapshot)
        problem = "; ".join(problems) or "no pod of it has a sidecar that runs: `rankmuster kube inject` adds one"
        return State(self._clock(), self._unix_now(), None, problem=problem)

    def _state(self, one: Known, pod: PodView, snapshot: Snapshot) -> State:
        now = self._unix_now()
        age = snapshot.time - now
        # a look is up to two periods old; what is more is the clocks' difference
        skew = age if age > 0 else min(age + 2 * snapshot.watcher.period, 0.0)
        at = min(snapshot.time - skew, now)
        view = view_of(snapshot, one.name)
        if view is None:
            names = ", ".join(view.name for view in snapshot.instances[:5]) or "none"
            problem = f"the sidecar of pod {pod.name} watches no instance {one.name}: it sees {names}"
            return State(self._clock(), at, None, pod.uid, skew, problem)
        return State(self._clock(), at, view, pod.uid, skew, incarnation=one.incarnation)


def askable(one: Known) -> list[PodView]:
    """Pods with a sidecar that runs, the anchor first."""
    anchor = one.view.anchor.uid if one.view.anchor is not None else None
    found = [
        pod
        for pod in one.view.pods
        if pod.ip is not None and any(box.name == SIDECAR and box.running for box in pod.containers)
    ]
    return sorted(found, key=lambda pod: (pod.uid != anchor, pod.name))


def view_of(snapshot: Snapshot, name: str) -> InstanceView | None:
    """The instance's, by its name; the only one that there is where it is called otherwise: a pod holds one."""
    named = next((one for one in snapshot.instances if one.name == name), None)
    if named is not None:
        return named
    return snapshot.instances[0] if len(snapshot.instances) == 1 else None
