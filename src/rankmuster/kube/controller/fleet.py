"""What is known of the cluster: pods, workloads, nodes and policies as the watches told, and the instances they make.

Fed by the watches of one thread, read by all others. Nothing in here is acted on: whoever acts reads the API server
again. A look that came late costs a question, never an action on the wrong pod.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rankmuster.adapters.kube.find import stand_in
from rankmuster.adapters.kube.instances import instance, instances, is_single
from rankmuster.adapters.kube.members import member_of
from rankmuster.adapters.kube.naming import incarnation_of
from rankmuster.adapters.kube.workloads import WorkloadView
from rankmuster.kube.controller.matching import Governed, PolicyView, WorkloadKey, govern
from rankmuster.model.kube import InstanceView, NodeView, PodView, WorkloadKind

MOST_LATELY = 64
"""Pods of one workload that are remembered after their end: the last incarnation of a group of 32, and another one."""

MOST_WORKLOADS_LATELY = 200


@dataclass(frozen=True, slots=True)
class Known:
    """One instance that a policy governs."""

    view: InstanceView
    policy: PolicyView
    key: WorkloadKey

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def container(self) -> str | None:
        """In which the ranks run, where the policy says so."""
        return self.policy.spec.container if self.policy.spec is not None else None

    @property
    def incarnation(self) -> str | None:
        """What runs now."""
        return incarnation_of(self.view, self.container)

    @property
    def nodes(self) -> dict[str, str]:
        """Pod name and pod IP -> node."""
        found = {}
        for pod in self.view.pods:
            if pod.node is not None:
                found[pod.name] = pod.node
                if pod.ip is not None:
                    found[pod.ip] = pod.node
        return found


def workload_key(view: WorkloadView) -> WorkloadKey:
    return WorkloadKey(view.namespace, view.kind, view.name)


class Fleet:
    """All that is held of one cluster."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed: Callable[[tuple[str, str]], None] = lambda _: None
        self._pods: dict[str, PodView] = {}
        self._gone: set[str] = set()
        self._lately: dict[WorkloadKey, list[PodView]] = defaultdict(list)
        self._places: dict[str, WorkloadKey] = {}
        self._by_workload: dict[WorkloadKey, dict[str, PodView]] = defaultdict(dict)
        self._workloads: dict[WorkloadKey, WorkloadView] = {}
        self._policies: dict[tuple[str, str], PolicyView] = {}
        self._nodes: dict[str, NodeView] = {}
        self._governed = Governed()
        self._known: dict[str, Known] = {}
        self._names: dict[WorkloadKey, tuple[str, ...]] = {}
        self._dirty: set[WorkloadKey] = set()
        self._govern = False

    def tell(self, changed: Callable[[tuple[str, str]], None]) -> None:
        """`changed`: gets the policies whose instances are others than before, from the thread that settles."""
        self._changed = changed

    # -- what the watches tell

    def pod(self, view: PodView, *, gone: bool = False) -> None:
        """As it is now, or that it is gone."""
        with self._lock:
            before = self._places.pop(view.uid, None)
            if before is not None:
                self._by_workload[before].pop(view.uid, None)
                self._dirty.add(before)
            last = self._pods.pop(view.uid, None)
            if gone:
                self._gone.add(view.uid)
                if before is not None:
                    self._remember(before, last or view)
            member = None if gone else member_of(view)
            if member is None:
                return
            key = WorkloadKey(view.namespace, member.kind, member.workload)
            self._pods[view.uid] = view
            self._places[view.uid] = key
            self._by_workload[key][view.uid] = view
            self._dirty.add(key)

    def _remember(self, key: WorkloadKey, pod: PodView) -> None:
        self._lately[key] = [*self._lately[key], pod][-MOST_LATELY:]
        if len(self._lately) > MOST_WORKLOADS_LATELY:
            del self._lately[next(iter(self._lately))]

    def lately(self, key: WorkloadKey) -> tuple[PodView, ...]:
        """Pods of a workload that are gone, as they were last, the newest last: what they left lies on their nodes."""
        with self._lock:
            return tuple(self._lately.get(key, ()))

    def workload(self, view: WorkloadView, *, gone: bool = False) -> None:
        key = workload_key(view)
        with self._lock:
            before = self._workloads.get(key)
            if gone:
                if before is not None and before.uid != view.uid:
                    return  # of one that had the name before
                self._workloads.pop(key, None)
            else:
                self._workloads[key] = view
            self._dirty.add(key)
            self._govern |= gone or before is None or before.labels != view.labels or before.inside != view.inside

    def policy(self, view: PolicyView, *, gone: bool = False) -> None:
        with self._lock:
            if gone:
                self._policies.pop(view.key, None)
            else:
                self._policies[view.key] = view
            self._govern = True

    def node(self, view: NodeView, *, gone: bool = False) -> None:
        with self._lock:
            if gone:
                self._nodes.pop(view.name, None)
            else:
                self._nodes[view.name] = view

    def listing(self) -> frozenset[str]:
        """Before a whole list of pods is read: those that are known now."""
        with self._lock:
            self._gone.clear()
            return frozenset(self._pods)

    def only_pods(self, views: Iterable[PodView], before: frozenset[str]) -> int:
        """A whole list: what was known `before` it and is not in it is gone, whatever the watch has missed. What the
        watch has told meanwhile stands. How many were gone."""
        with self._lock:
            listed = set()
            for one in views:
                listed.add(one.uid)
                known = self._pods.get(one.uid)
                if one.uid not in self._gone and (known is None or _newer(one, known)):
                    self.pod(one)
            missed = [self._pods[uid] for uid in before - listed if uid in self._pods]
            for gone in missed:
                self.pod(gone, gone=True)
            return len(missed)

    def only_workloads(self, kind: str, views: Iterable[WorkloadView]) -> int:
        """The same for one kind of workloads."""
        with self._lock:
            there = {workload_key(one): one for one in views}
            missed = [one for key, one in self._workloads.items() if key.kind.value == kind and key not in there]
            for gone in missed:
                self.workload(gone, gone=True)
            for one in there.values():
                self.workload(one)
            return len(missed)

    def only_nodes(self, views: Iterable[NodeView]) -> tuple[str, ...]:
        """The same for nodes: names of those that are gone."""
        with self._lock:
            there = {one.name: one for one in views}
            missed = tuple(name for name in self._nodes if name not in there)
            for name in missed:
                del self._nodes[name]
            self._nodes.update(there)
            return missed

    # -- what follows from it

    def settle(self) -> None:
        """Works out what has changed since the last time. Cheap where nothing has."""
        told: set[tuple[str, str]] = set()
        with self._lock:
            if self._govern:
                told |= self._govern_again()
            for key in self._with_namesakes():
                told |= self._settle(key)
            self._dirty.clear()
        for policy in told:
            self._changed(policy)

    def _govern_again(self) -> set[tuple[str, str]]:
        labels = {key: one.labels for key, one in self._workloads.items() if not one.inside}
        before, self._governed = self._governed, govern(self._policies.values(), labels)
        self._govern = False
        for key in {*before.by, *self._governed.by}:
            if before.by.get(key) != self._governed.by.get(key):
                self._dirty.add(key)
        return {one.key for one in self._policies.values()}

    def _with_namesakes(self) -> set[WorkloadKey]:
        """Workloads of other kinds with the same name are worked out together: their instances' names must differ."""
        return {
            other
            for key in self._dirty
            for kind in type(key.kind)
            for other in (WorkloadKey(key.namespace, kind, key.name),)
            if other == key or other in self._workloads
        }

    def _settle(self, key: WorkloadKey) -> set[tuple[str, str]]:
        told = set()
        for name in self._names.pop(key, ()):
            gone = self._known.pop(name, None)
            if gone is not None:
                told.add(gone.policy.key)
        policy, workload = self._governed.by.get(key), self._workloads.get(key)
        if policy is None or policy.spec is None or workload is None:
            if not self._by_workload.get(key):
                self._by_workload.pop(key, None)
            return told
        kin = [
            one
            for kind in type(key.kind)
            if (one := self._workloads.get(WorkloadKey(key.namespace, kind, key.name))) is not None
        ]
        pods = [pod for one in kin for pod in self._by_workload.get(workload_key(one), {}).values()]
        names = []
        for view in instances(pods, kin, policy.spec.grouping):
            if view.kind is not key.kind:
                continue
            other = self._known.get(view.name)
            if other is not None:  # names are sums where they could meet: two that meet all the same are both let alone
                words = f"{key} makes an instance of the same name"
                self._known[view.name] = replace(other, view=replace(other.view, problem=words))
                continue
            self._known[view.name] = Known(view, policy, key)
            names.append(view.name)
        self._names[key] = tuple(names)
        return told | {policy.key}

    # -- what is asked

    def governed(self, name: str) -> Known | None:
        """The instance, also where it is one of a Deployment whose pod is gone: another pod stands in for it, under
        the name that its incident has."""
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                return known
            for key, policy in self._governed.by.items():
                index = name.removeprefix(f"{key.namespace}.{key.name}.")
                workload = self._workloads.get(key)
                if index == name or workload is None or policy.spec is None:
                    continue
                if key.kind is not WorkloadKind.DEPLOYMENT or not is_single(key.kind, policy.spec.grouping):
                    continue
                pods = tuple(self._by_workload.get(key, {}).values())
                gone = instance(workload, (), policy.spec.grouping, index)
                if gone.name == name:
                    return Known(stand_in(gone, workload, pods), policy, key)
            return None

    def instances(self) -> tuple[Known, ...]:
        with self._lock:
            return tuple(self._known.values())

    def of_policy(self, key: tuple[str, str]) -> tuple[Known, ...]:
        with self._lock:
            return tuple(one for one in self._known.values() if one.policy.key == key)

    def contested(self, namespace: str) -> Mapping[WorkloadKey, tuple[str, ...]]:
        """Workloads of a namespace that several policies match, with those policies' names."""
        with self._lock:
            return {key: names for key, names in self._governed.contested.items() if key.namespace == namespace}

    def ambiguous(self, policy: tuple[str, str]) -> tuple[WorkloadKey, ...]:
        """Workloads that a policy matches and does not govern, since it is meant for one."""
        with self._lock:
            return self._governed.ambiguous.get(policy, ())

    def known_policy(self, key: tuple[str, str]) -> PolicyView | None:
        with self._lock:
            return self._policies.get(key)

    def policies(self) -> tuple[PolicyView, ...]:
        with self._lock:
            return tuple(self._policies.values())

    def nodes(self) -> tuple[NodeView, ...]:
        with self._lock:
            return tuple(self._nodes.values())

    def counts(self) -> dict[str, int]:
        """How many of each are held, for metrics and for those who measure memory."""
        with self._lock:
            return {
                "pods": len(self._pods),
                "workloads": len(self._workloads),
                "nodes": len(self._nodes),
                "policies": len(self._policies),
                "instances": len(self._known),
            }


def _newer(one: PodView, known: PodView) -> bool:
    """Whether it may be: versions grow, and what is no number is believed."""
    new, old = one.resource_version, known.resource_version
    return int(new) > int(old) if new.isdecimal() and old.isdecimal() else new != old
