"""The controller put together: watches feed the fleet, sidecars are asked, incidents opened and run, resources written.

The runbook itself is `incident`'s: its service, runners and journal, with Kubernetes' objects as actuators. All that
is kept here can be lost: the journal and the API server know everything that matters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rankmuster.adapters.kube.api import (
    ADMISSIONS,
    INCIDENTS,
    NODES,
    PODS,
    POLICIES,
    Api,
    Forbidden,
    Kind,
    KubeError,
    NotThere,
)
from rankmuster.adapters.kube.naming import incarnation_of
from rankmuster.adapters.kube.nodes import node_view
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.workloads import KINDS, workload_view
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.budget import DEFAULT_SECONDS
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.facts import facts_of
from rankmuster.incident.journal import Journal
from rankmuster.incident.notices import Notices
from rankmuster.incident.runner import Runner
from rankmuster.incident.serve import Served, Service, newest_of
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller import finalizer
from rankmuster.kube.controller.definitions import Definitions
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.follow import KubeFollower
from rankmuster.kube.controller.gates import Gates
from rankmuster.kube.controller.kept_out import kept_out
from rankmuster.kube.controller.policies import Policies, policy_view
from rankmuster.kube.controller.policy_config import config_of, evidence_folder
from rankmuster.kube.controller.projector import Projector
from rankmuster.kube.controller.runners import Runners
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.states import Asks, States
from rankmuster.kube.controller.watching import Told
from rankmuster.kube.controller.work_queue import WorkQueue
from rankmuster.model.incident import Event, EventKind, IncidentHead, Step
from rankmuster.model.kube import SIDECAR, NodeView, WorkloadKind
from rankmuster.report.inert import plain
from rankmuster.store.errors import HistoryError

TURN_SECONDS = 0.25
"""Of housekeeping: what the watches told is worked out, sidecars are asked, gates opened."""

POLICY_SECONDS = 30.0
"""Between two looks at a policy's status where nothing tells of a change: progress is in it."""

DEFINITION_SECONDS = 30.0
"""Between two looks at the definitions of our resources: somebody may apply those of a newer version at any time."""

LIST_SECONDS = 120.0
"""For one whole list: 8,000 pods in pages of 250."""

ORPHAN_SECONDS = 300.0
"""After which an open incident of an instance that no policy governs is closed as aborted: a workload that is made
anew, and a controller that has just begun, need some time to be known."""

ORPHAN_TURN = 30.0

GONE_SECONDS = 20.0
"""After a pod's grace period until it is seen that it is gone: the kubelet kills it, and tells the API server."""

READY_SECONDS = 45.0
"""From an open gate to pods that are Ready: the readiness probes of all their containers, every 10 s by default, and an
API server that is busy with a fleet."""

FORGET_SECONDS = 5.0


class Admits(Protocol):
    """What is used of `kube.admission.work.AdmissionWork`."""

    def node_changed(self, view: NodeView) -> None: ...

    def node_gone(self, name: str) -> None: ...

    def admission_changed(self, raw: Mapping[str, Any]) -> None: ...

    def admission_gone(self, name: str) -> None: ...

    def turn(self, seconds: float = ...) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the controller works with. `tools`: actuators of an instance. `holder`: this controller's name in the
    journal, `host`: of its pod. `uploaded(incident)`: where a copy of its evidence went. `node_labels`: keys of labels
    that are kept of a node besides those that are facts. `fingerprints`: asks nodes' agents that are due."""

    api: Api
    journal: Journal
    asks: Asks
    tools: Callable[[Known], Tools]
    admission: Admits | None = None
    clock: Clock
    unix_now: Callable[[], float]
    say: Callable[[str], None]
    holder: str
    host: str
    uploaded: Callable[[str], str | None] = field(default=lambda _: None)
    node_labels: tuple[str, ...] = ()
    fingerprints: Callable[[], object] = field(default=lambda: None)


class Controller:
    """One cluster's. `sinks` are fed by the watches; `run` works until it is told to end."""

    def __init__(self, settings: ControllerSettings, outside: Outside, fleet: Fleet | None = None) -> None:
        self._settings, self._outside = settings, outside
        self._clock, self._say = outside.clock, outside.say
        self._stop = threading.Event()
        self._ready = False
        self._raw_policies: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._policy_queue: WorkQueue[tuple[str, str]] = WorkQueue(outside.clock)
        self.fleet = fleet if fleet is not None else Fleet()
        self.fleet.tell(self._policy_queue.add)
        self.states = States(
            outside.asks,
            period=settings.period,
            at_once=settings.polls_at_once,
            port=settings.sidecar_port,
            clock=outside.clock,
            unix_now=outside.unix_now,
        )
        self._definitions = Definitions(outside.api, outside.clock)
        self._follower = KubeFollower(
            self.fleet,
            self.states,
            newest_of(outside.journal),
            unix_now=outside.unix_now,
            ready=lambda: self._ready,
            newer=self.newer,
        )
        self.projector = Projector(
            outside.api,
            outside.journal,
            self._place,
            clock=outside.clock,
            unix_now=outside.unix_now,
            say=outside.say,
            uploaded=outside.uploaded,
        )
        self._open: tuple[IncidentHead, ...] = ()
        self._standing_in: tuple[Known, ...] = ()
        self._policies = Policies(
            outside.api,
            self.fleet,
            self.states,
            settings,
            self._busy,
            clock=outside.clock,
            unix_now=outside.unix_now,
            newer=self._definitions.newer,
        )
        self._gates = Gates(
            outside.api, settings, self._busy, self._held, self._kept_out, clock=outside.clock, say=outside.say
        )
        self._runners = Runners(self.fleet, self._runner, self._orphan_runner)
        self._notices = Notices(settings.hooks, outside.clock, outside.say)
        self._current: dict[str, str] = {}
        self._service = Service(
            Served(self._runners, self._follower, outside.journal, self._notices, self._current),
            outside.holder,
            outside.clock,
            outside.say,
        )
        self._orphans: dict[str, float] = {}
        self._orphans_at = self._lists_at = float("-inf")
        self._told: dict[str, str] = {}

    # -- what the watches tell

    def sinks(self) -> dict[Kind, Told]:
        """By kind, whom to tell."""
        found: dict[Kind, Told] = {
            PODS: self._told_pod,
            POLICIES: self._told_policy,
            INCIDENTS: lambda raw, gone: self.projector.object(raw, gone=gone),
        }
        for name, kind in KINDS.items():
            found[kind] = self._of_workload(name)
        if self._outside.admission is not None:
            found[NODES] = self._told_node
            found[ADMISSIONS] = self._told_admission
        return found

    def _told_pod(self, raw: Any, gone: bool) -> None:
        self.fleet.pod(pod_view(raw), gone=gone)

    def _of_workload(self, name: WorkloadKind) -> Told:
        def told(raw: Any, gone: bool) -> None:
            self.fleet.workload(workload_view(name, raw), gone=gone)

        return told

    def _told_node(self, raw: Any, gone: bool) -> None:
        view = node_view(raw, self._outside.node_labels)
        self.fleet.node(view, gone=gone)
        admission = self._outside.admission
        if admission is not None and gone:
            admission.node_gone(view.name)
        elif admission is not None:
            admission.node_changed(view)

    def _told_admission(self, raw: Any, gone: bool) -> None:
        admission = self._outside.admission
        if admission is not None and gone:
            admission.admission_gone(str((raw.get("metadata") or {}).get("name")))
        elif admission is not None:
            admission.admission_changed(raw)

    def _told_policy(self, raw: Any, gone: bool) -> None:
        view = policy_view(raw)
        if view is None:
            return
        if gone:
            self._raw_policies.pop(view.key, None)
        else:
            self._raw_policies[view.key] = raw
        before = self.fleet.known_policy(view.key)
        self.fleet.policy(view, gone=gone)
        if (
            gone
            or before is None
            or (before.generation, before.deleting_since) != (view.generation, view.deleting_since)
        ):
            self._policy_queue.add(view.key)

    # -- running

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. What raises here ends the process: it would do nothing silently."""
        works: tuple[tuple[str, Callable[[], object]], ...] = (
            ("housekeeping", self._housekeeping),
            ("policies", self._policy_turn),
            ("lists", self._lists),
        )
        if not self._settings.dry_run:
            works += (("resources", lambda: self.projector.turn(TURN_SECONDS)),)
        if self._outside.admission is not None:
            works += (("admission", self._admission_turn),)
        threads = [threading.Thread(target=self._again_and_again, args=one, name=one[0], daemon=True) for one in works]
        for thread in threads:
            thread.start()
        try:
            self._service.run(stop)
        finally:
            self._stop.set()
            self.states.close()
            for thread in threads:
                thread.join(2.0)

    def _again_and_again(self, name: str, work: Callable[[], object]) -> None:
        while not self._stop.is_set():
            try:
                work()
                self._tell(name, "")
            except HistoryError as error:
                self._tell(name, f"the journal does not answer: {error}")
                self._stop.wait(5.0)
            except Exception as error:  # of one turn: the next one sees the world anew
                self._tell(name, f"internal error in {name}: {type(error).__name__}: {error}")
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
            self._orphan_turn()
        self._stop.wait(TURN_SECONDS if self._open else 2 * TURN_SECONDS)

    def _lists(self) -> None:
        """Whole lists: once at the beginning, before anything is opened, then rarely; definitions more often."""
        unread = self._definitions.look()
        self._tell("definitions", unread or self.newer())
        due = self._clock() >= self._lists_at
        if due and self.resync():
            if not self._ready:
                self.projector.opened(one.id for one in self._outside.journal.incidents(open_only=True))
                self.fleet.settle()
                self._ready = True
                self._say(f"the cluster is known: {self.fleet.counts()}")
            self._lists_at = self._clock() + self._settings.resync_seconds
        if self._ready:
            self._stop.wait(max(min(self._lists_at - self._clock(), DEFINITION_SECONDS), 5.0))
        else:
            self._stop.wait(5.0)

    def resync(self) -> bool:
        """Reads everything anew. False where something could not be: then nothing of that kind is taken for gone."""
        whole = True
        before = self.fleet.listing()
        missed = 0
        pods = self._listed(PODS, pod_view, self._settings.pods)
        if pods is not None:
            missed += self.fleet.only_pods(pods, before)
        whole &= pods is not None
        for name, kind in KINDS.items():
            views = self._listed(kind, partial(workload_view, name), "")
            if views is not None:
                missed += self.fleet.only_workloads(name.value, views)
            whole &= views is not None
        policies = self._listed(POLICIES, lambda raw: raw, "")
        whole &= policies is not None
        if policies is not None:
            there = set()
            for raw in policies:
                self._told_policy(raw, False)
                view = policy_view(raw)
                there |= {view.key} if view is not None else set()
            for one in self.fleet.policies():
                if one.key not in there:
                    self.fleet.policy(one, gone=True)
                    missed += 1
        if self._outside.admission is not None:
            nodes = self._listed(NODES, lambda raw: node_view(raw, self._outside.node_labels), self._settings.nodes)
            whole &= nodes is not None
            for view in nodes or ():
                self._outside.admission.node_changed(view)
            if nodes is not None:
                for gone in self.fleet.only_nodes(nodes):
                    self._outside.admission.node_gone(gone)
        if missed and self._ready:
            self._say(f"{missed} objects were gone without the watches having told")
        return whole

    def _listed(self, kind: Kind, view: Callable[[Any], Any], labels: str) -> list[Any] | None:
        """None where it could not be read. A kind that this cluster does not have is empty."""
        found: list[Any] = []
        spaces: Iterable[str | None] = (
            self._settings.namespaces if kind.namespaced and self._settings.namespaces else (None,)
        )
        for space in spaces:
            try:
                self._outside.api.visit(
                    kind,
                    space,
                    Deadline.after(LIST_SECONDS, self._clock),
                    lambda raw: _keep(found, view, raw),
                    partial(found.__delitem__, slice(len(found), None)),
                    labels=labels or None,
                )
            except NotThere as error:
                if error.status != 404:  # 410: it has expired while it was read, and says nothing of what there is
                    self._tell(f"list {kind.plural}", f"{kind.plural} could not be listed: {error}")
                    return None
                if kind is POLICIES:
                    said = f"the API server knows no {kind.plural} {kind.api_version}: are the definitions applied?"
                    self._tell(f"list {kind.plural}", said)
                return []
            except Forbidden as error:
                self._tell(f"list {kind.plural}", f"{kind.plural} may not be listed: {error}")
                return None
            except KubeError as error:
                self._tell(f"list {kind.plural}", f"{kind.plural} could not be listed: {error}")
                return None
        self._tell(f"list {kind.plural}", "")
        return found

    # -- policies

    def _policy_turn(self) -> None:
        key = self._policy_queue.take(TURN_SECONDS)
        if key is None:
            return
        try:
            self._policy(key)
        except (KubeError, HistoryError) as error:
            pause = self._policy_queue.failed(key)
            self._tell(
                f"policy {key}", f"the policy {key[0]}/{key[1]} could not be written: {error}; again in {pause:.0f} s"
            )
            return
        self._tell(f"policy {key}", "")
        there = self.fleet.known_policy(key)
        again = None if there is None else (2.0 if there.deleting else POLICY_SECONDS)
        self._policy_queue.done(key, again)

    def _policy(self, key: tuple[str, str]) -> None:
        policy = self.fleet.known_policy(key)
        if policy is None or self._settings.dry_run:
            return
        opened = [
            head
            for head in self._outside.journal.incidents(open_only=True)
            if (known := self.fleet.governed(head.instance)) is not None and known.policy.key == key
        ]
        now = self._outside.unix_now()
        # what only observes holds nothing, and needs nobody to let go of it
        acts = policy.spec is not None and any(one in self._settings.enable for one in policy.spec.enable)
        wanted = finalizer.wanted(policy, opened if acts or policy.held else (), now)
        if policy.deleting and policy.held and wanted:
            finalizer.abort(self._outside.journal, opened, now)
        if wanted != policy.held and not (wanted and policy.deleting):
            deadline = Deadline.after(finalizer.CALL_SECONDS, self._clock)
            finalizer.hold(self._outside.api, policy.namespace, policy.name, wanted, deadline)
        if policy.deleting:
            return
        raw = self._raw_policies.get(key, {})
        status = raw.get("status")
        self._policies.reconcile(key, status if isinstance(status, dict) else {})

    # -- incidents

    def _runner(self, known: Known) -> Runner:
        spec = known.policy.spec
        assert spec is not None  # the fleet has no instance of a policy that cannot be read
        config = config_of(spec, self._settings, known.name, {})
        grace = max((pod.grace for pod in known.view.pods), default=0)
        least = {
            Step.TERMINATE: max(grace + GONE_SECONDS, DEFAULT_SECONDS[Step.TERMINATE]),
            Step.RESTORE: READY_SECONDS,
        }
        config = replace(config, budget={**least, **config.budget})
        return self._made(known.name, config, self._outside.tools(known), evidence_folder(self._settings, spec))

    def _orphan_runner(self, name: str) -> Runner:
        """Of an instance that nobody governs any more: it touches nothing, and closes what was aborted."""
        return self._made(name, IncidentConfig(), Tools(), evidence_folder(self._settings, None))

    def _made(self, name: str, config: IncidentConfig, tools: Tools, folder: Path) -> Runner:
        notice = self._notices.of(name, self._current)

        def told(event: Event) -> None:
            incident = self._current.get(name)
            if incident is not None:
                self.projector.changed(incident)
            known = self.fleet.governed(name)
            if known is not None:
                self._policy_queue.add(known.policy.key)
            if self._settings.dry_run:
                for line in would_lines(event):
                    self._say(f"{name}: would: {line}")
            if event.kind is EventKind.CLOSED:
                self._forget_profile(tools)
            notice(event)

        return Runner(
            config,
            name,
            tools,
            self._outside.journal,
            clock=self._clock,
            unix_now=self._outside.unix_now,
            holder=self._outside.holder,
            facts=facts_of(config, name, self._outside.journal, self._outside.unix_now),
            seen=lambda: self._follower.seen(name),
            folder=folder,
            host=self._outside.host,
            told=told,
            followed=lambda: self._has_sidecar(name),
        )

    def _has_sidecar(self, name: str) -> bool:
        """Whether pods of it have one that will tell of the next start; those that are being made are as the last."""
        known = self.fleet.governed(name)
        pods = known.view.pods if known is not None else ()
        return not pods or any(box.name == SIDECAR for pod in pods for box in pod.containers)

    def _forget_profile(self, tools: Tools) -> None:
        """Variables for one start are not for the next one."""
        forget = getattr(tools.group, "forget_profile", None)
        if forget is not None:
            answer = forget(Deadline.after(FORGET_SECONDS, self._clock))
            if not answer.ending.good:
                self._say(answer.note)

    def _orphan_turn(self) -> None:
        now = self._clock()
        if now - self._orphans_at < ORPHAN_TURN:
            return
        self._orphans_at = now
        alone = [head for head in self._open if self.fleet.governed(head.instance) is None]
        self._orphans = {one.id: self._orphans.get(one.id, now) for one in alone}
        for head in alone:
            if now - self._orphans[head.id] >= ORPHAN_SECONDS:
                finalizer.abort(self._outside.journal, [head], self._outside.unix_now(), finalizer.ALONE)
                self._runners.adopt(head.instance)

    def newer(self) -> str:
        """Why our resources are those of a newer version; empty where they are not."""
        return self._definitions.newer()

    def _busy(self) -> frozenset[str]:
        """Instances with an open incident."""
        return frozenset(one.instance for one in self._open)

    def uploaded(self, incident: str) -> None:
        """A copy of its evidence is elsewhere: its resource says so soon."""
        self.projector.changed(incident)

    def _kept_out(self, known: Known) -> str | None:
        container = known.policy.spec.container if known.policy.spec is not None else None
        return kept_out(self._outside.journal, known.name, incarnation_of(known.view, container))

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

    def _admission_turn(self) -> None:
        if self._outside.admission is not None and self._ready:
            self._outside.fingerprints()
            self._outside.admission.turn()
        self._stop.wait(4 * TURN_SECONDS)

    def _tell(self, of: str, said: str) -> None:
        """Once, until it is another one or none."""
        if said and said != self._told.get(of):
            self._say(said)
        if said:
            self._told[of] = said
        else:
            self._told.pop(of, None)

    def depths(self) -> dict[str, int]:
        """Of the queues, now and at the deepest: for metrics and measurements."""
        return {
            "policies": len(self._policy_queue),
            "policies_deepest": self._policy_queue.deepest,
            "resources": self.projector.depth,
            "resources_deepest": self.projector.deepest,
        }


def would_lines(event: Event) -> tuple[str, ...]:
    """What an action that only observes would have sent, line by line."""
    would = event.data.get("would") if event.kind is EventKind.RESULT else None
    return tuple(plain(one, 500) for one in would) if isinstance(would, (list, tuple)) else ()


def _keep(found: list[Any], view: Callable[[Any], Any], raw: Any) -> None:
    try:
        found.append(view(raw))
    except ValueError:
        return  # what has no name is nobody's
