"""Feeds the fleet: by what the watches tell, and by whole lists now and then, after which nothing missed is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rankmuster.adapters.kube.api import (
    ADMISSIONS,
    INCIDENTS,
    NODES,
    PODS,
    POLICIES,
    Forbidden,
    Kind,
    KubeError,
    NotThere,
)
from rankmuster.adapters.kube.nodes import node_view
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.workloads import KINDS, workload_view
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.controller.fleet import Fleet
from rankmuster.kube.controller.outside import Outside
from rankmuster.kube.controller.policies import policy_view
from rankmuster.kube.controller.said_once import SaidOnce
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.watching import Told
from rankmuster.model.kube import WorkloadKind

LIST_SECONDS = 120.0
"""For one whole list: 8,000 pods in pages of 250."""


class Feeding:
    """`policy`, `incident`: get the objects of our own resources, and whether they are gone."""

    def __init__(
        self, settings: ControllerSettings, outside: Outside, fleet: Fleet, policy: Told, incident: Told, once: SaidOnce
    ) -> None:
        self._settings, self._outside, self._fleet = settings, outside, fleet
        self._policy, self._incident, self._once = policy, incident, once

    # -- watches

    def sinks(self) -> dict[Kind, Told]:
        """By kind, whom to tell."""
        found: dict[Kind, Told] = {PODS: self._told_pod, POLICIES: self._policy, INCIDENTS: self._incident}
        for name, kind in KINDS.items():
            found[kind] = self._of_workload(name)
        if self._outside.admission is not None:
            found[NODES] = self._told_node
            found[ADMISSIONS] = self._told_admission
        return found

    def _told_pod(self, raw: Any, gone: bool) -> None:
        self._fleet.pod(pod_view(raw), gone=gone)

    def _of_workload(self, name: WorkloadKind) -> Told:
        def told(raw: Any, gone: bool) -> None:
            self._fleet.workload(workload_view(name, raw), gone=gone)

        return told

    def _told_node(self, raw: Any, gone: bool) -> None:
        view = node_view(raw, self._outside.node_labels)
        self._fleet.node(view, gone=gone)
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

    # -- lists

    def resync(self) -> tuple[bool, int]:
        """(whether everything could be read, how many were gone without a watch having told). Of a kind that could not
        be read nothing is taken for gone."""
        before = self._fleet.listing()
        whole, missed = True, 0
        pods = self._listed(PODS, pod_view, self._settings.pods)
        if pods is not None:
            missed += self._fleet.only_pods(pods, before)
        whole &= pods is not None
        for name, kind in KINDS.items():
            views = self._listed(kind, partial(workload_view, name), "")
            if views is not None:
                missed += self._fleet.only_workloads(name.value, views)
            whole &= views is not None
        policies = self._listed(POLICIES, lambda raw: raw, "")
        if policies is not None:
            missed += self._only_policies(policies)
        whole &= policies is not None
        return whole and self._nodes(), missed

    def _only_policies(self, found: list[Any]) -> int:
        there, missed = set(), 0
        for raw in found:
            self._policy(raw, False)
            view = policy_view(raw)
            there |= {view.key} if view is not None else set()
        for one in self._fleet.policies():
            if one.key not in there:
                self._fleet.policy(one, gone=True)
                missed += 1
        return missed

    def _nodes(self) -> bool:
        admission = self._outside.admission
        if admission is None:
            return True
        nodes = self._listed(NODES, lambda raw: node_view(raw, self._outside.node_labels), self._settings.nodes)
        if nodes is None:
            return False
        for view in nodes:
            admission.node_changed(view)
        for gone in self._fleet.only_nodes(nodes):
            admission.node_gone(gone)
        return True

    def _listed(self, kind: Kind, view: Callable[[Any], Any], labels: str) -> list[Any] | None:
        """None where it could not be read. A kind that this cluster does not have is empty."""
        found: list[Any] = []
        named = kind.namespaced and self._settings.namespaces
        spaces: Iterable[str | None] = self._settings.namespaces if named else (None,)
        for space in spaces:
            try:
                self._outside.api.visit(
                    kind,
                    space,
                    Deadline.after(LIST_SECONDS, self._outside.clock),
                    partial(_keep, found, view),
                    partial(found.__delitem__, slice(len(found), None)),
                    labels=labels or None,
                )
            except NotThere as error:
                if error.status != 404:  # 410: it has expired while it was read, and says nothing of what there is
                    self._unread(kind, f"could not be listed: {error}")
                    return None
                if kind is POLICIES:
                    said = f"the API server knows no {kind.plural} {kind.api_version}: are the definitions applied?"
                    self._once.tell(f"list {kind.plural}", said)
                return []
            except Forbidden as error:
                self._unread(kind, f"may not be listed: {error}")
                return None
            except KubeError as error:
                self._unread(kind, f"could not be listed: {error}")
                return None
        self._once.tell(f"list {kind.plural}", "")
        return found

    def _unread(self, kind: Kind, why: str) -> None:
        self._once.tell(f"list {kind.plural}", f"{kind.plural} {why}")


def _keep(found: list[Any], view: Callable[[Any], Any], raw: Any) -> None:
    try:
        found.append(view(raw))
    except ValueError:
        return  # what has no name is nobody's
