"""The controller put together: watches feed the fleet, sidecars are asked, incidents opened and run, resources written.

The runbook itself is `incident`'s: its service, runners and journal, with Kubernetes' objects as actuators. All that
is kept here can be lost: the journal and the API server know everything that matters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rankmuster.adapters.kube.api import Kind
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.serve import Served, Service, newest_of
from rankmuster.kube.controller.definitions import Definitions
from rankmuster.kube.controller.feeding import Feeding
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.follow import KubeFollower
from rankmuster.kube.controller.gates import Gates
from rankmuster.kube.controller.outside import Outside
from rankmuster.kube.controller.policies import Policies
from rankmuster.kube.controller.policy_work import PolicyWork
from rankmuster.kube.controller.projector import Projector
from rankmuster.kube.controller.runbooks import Runbooks
from rankmuster.kube.controller.said_once import SaidOnce
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.states import States
from rankmuster.kube.controller.watching import Told
from rankmuster.model.incident import IncidentHead
from rankmuster.store.errors import HistoryError

TURN_SECONDS = 0.25
"""Of housekeeping: what the watches told is worked out, sidecars are asked, gates opened."""

DEFINITION_SECONDS = 30.0
"""Between two looks at the definitions of our resources: somebody may apply those of a newer version at any time."""

END_SECONDS = 3.0
"""For all threads together: what they were about is taken up by the next leader."""

LIST_AGAIN_SECONDS = 5.0
"""After a list that could not be read."""


class Controller:
    """One cluster's. `sinks` are fed by the watches; `run` works until it is told to end."""

    def __init__(self, settings: ControllerSettings, outside: Outside, fleet: Fleet | None = None) -> None:
        self._settings, self._outside = settings, outside
        clock, unix_now, say = outside.clock, outside.unix_now, outside.say
        self._once = SaidOnce(say)
        self._stop = threading.Event()
        self._ready = False
        self._lists_at = float("-inf")
        self._open: tuple[IncidentHead, ...] = ()
        self._standing_in: tuple[Known, ...] = ()
        self.fleet = fleet if fleet is not None else Fleet()
        self.states = States(
            outside.asks,
            period=settings.period,
            at_once=settings.polls_at_once,
            port=settings.sidecar_port,
            clock=clock,
            unix_now=unix_now,
        )
        self._definitions = Definitions(outside.api, clock)
        follower = KubeFollower(
            self.fleet,
            self.states,
            newest_of(outside.journal),
            unix_now=unix_now,
            ready=lambda: self._ready,
            newer=self.newer,
        )
        self.projector = Projector(
            outside.api,
            outside.journal,
            self._place,
            clock=clock,
            unix_now=unix_now,
            say=say,
            uploaded=outside.uploaded,
        )
        policies = Policies(
            outside.api,
            self.fleet,
            self.states,
            settings,
            self._busy,
            clock=clock,
            unix_now=unix_now,
            newer=self._definitions.newer,
        )
        self._policy_work = PolicyWork(settings, outside, self.fleet, policies, self._once)
        self._runbooks = Runbooks(
            settings,
            outside,
            self.fleet,
            seen=follower.seen,
            changed=self.projector.changed,
            policy_changed=self._policy_work.queue.add,
        )
        self._gates = Gates(
            outside.api, settings, self._busy, self._held, self._runbooks.kept_out, clock=clock, say=say
        )
        self._feeding = Feeding(settings, outside, self.fleet, self._policy_work.told, self._told_incident, self._once)
        served = Served(
            self._runbooks.runners, follower, outside.journal, self._runbooks.notices, self._runbooks.current
        )
        self._service = Service(served, outside.holder, clock, say)

    def sinks(self) -> dict[Kind, Told]:
        """By kind, whom the watches tell."""
        return self._feeding.sinks()

    def _told_incident(self, raw: Any, gone: bool) -> None:
        self.projector.object(raw, gone=gone)

    # -- running

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. What raises here ends the process: it would do nothing silently."""
        works: list[tuple[str, Callable[[], object]]] = [
            ("housekeeping", self._housekeeping),
            ("policies", lambda: self._policy_work.turn(TURN_SECONDS)),
            ("lists", self._lists),
        ]
        if not self._settings.dry_run:
            works.append(("resources", lambda: self.projector.turn(TURN_SECONDS)))
        if self._outside.admission is not None:
            works.append(("admission", self._admission_turn))
        threads = [threading.Thread(target=self._again_and_again, args=one, name=one[0], daemon=True) for one in works]
        for thread in threads:
            thread.start()
        try:
            self._service.run(stop)
        finally:
            self._stop.set()
            self.states.close()
            end = Deadline.after(END_SECONDS)
            for thread in threads:
                thread.join(end.remaining())

    def _again_and_again(self, name: str, work: Callable[[], object]) -> None:
        while not self._stop.is_set():
            try:
                work()
                self._once.tell(name, "")
            except HistoryError as error:
                self._once.tell(name, f"the journal does not answer: {error}")
                self._stop.wait(5.0)
            except Exception as error:  # of one turn: the next one sees the world anew
                self._once.tell(name, f"internal error in {name}: {type(error).__name__}: {error}")
                self._stop.wait(1.0)

    def _housekeeping(self) -> None:
        self.fleet.settle()
        known = self.fleet.instances()
        self._open = self._outside.journal.incidents(open_only=True)
        names = {one.name for one in known}
        gone = [self.fleet.governed(one.instance) for one in self._open if one.instance not in names]
        self._standing_in = tuple(one for one in gone if one is not None)
        self.states.turn([*known, *self._standing_in])
        if self._ready:
            if not self.newer():
                self._gates.turn(known)
            self._runbooks.orphans(self._open)
        self._stop.wait(TURN_SECONDS if self._open else 2 * TURN_SECONDS)

    def _lists(self) -> None:
        """Whole lists: once at the beginning, before anything is opened, then rarely; definitions more often."""
        unread = self._definitions.look()
        self._once.tell("definitions", unread or self.newer())
        if self._outside.clock() >= self._lists_at:
            whole, missed = self._feeding.resync()
            if missed and self._ready:
                self._outside.say(f"{missed} objects were gone without the watches having told")
            if whole:
                self._known()
                self._lists_at = self._outside.clock() + self._settings.resync_seconds
        left = self._lists_at - self._outside.clock()
        self._stop.wait(max(min(left, DEFINITION_SECONDS), LIST_AGAIN_SECONDS) if self._ready else LIST_AGAIN_SECONDS)

    def _known(self) -> None:
        """Everything was read; the first time, work begins."""
        if self._ready:
            return
        self.projector.opened(one.id for one in self._outside.journal.incidents(open_only=True))
        self.fleet.settle()
        self._ready = True
        self._outside.say(f"the cluster is known: {self.fleet.counts()}")

    def _admission_turn(self) -> None:
        if self._outside.admission is not None and self._ready:
            self._outside.fingerprints()
            self._outside.admission.turn()
        self._stop.wait(4 * TURN_SECONDS)

    # -- what its parts ask one another

    def newer(self) -> str:
        """Why our resources are those of a newer version; empty where they are not."""
        return self._definitions.newer()

    def uploaded(self, incident: str) -> None:
        """A copy of its evidence is elsewhere: its resource says so soon."""
        self.projector.changed(incident)

    def depths(self) -> dict[str, int]:
        """Of the queues, now and at the deepest: for metrics and measurements."""
        queue = self._policy_work.queue
        return {
            "policies": len(queue),
            "policies_deepest": queue.deepest,
            "resources": self.projector.depth,
            "resources_deepest": self.projector.deepest,
        }

    def _busy(self) -> frozenset[str]:
        """Instances with an open incident."""
        return frozenset(one.instance for one in self._open)

    def _held(self) -> frozenset[str]:
        """UIDs of pods that stand in for those of open incidents."""
        return frozenset(pod.uid for one in self._standing_in for pod in one.view.pods)

    def _place(self, instance: str) -> tuple[str, str, str, list[dict[str, Any]]] | None:
        known = self.fleet.governed(instance)
        if known is None:
            return None
        pods = [
            {"name": pod.name, "uid": pod.uid, **({"node": pod.node} if pod.node is not None else {})}
            for pod in known.view.pods
        ]
        return known.view.namespace, f"{known.key.kind.value}/{known.key.name}", known.policy.name, pods
