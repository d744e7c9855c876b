"""The actuators of one instance, by its policy: the one place where its words become classes of `adapters.kube`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.api import Api
from rankmuster.adapters.kube.events import Events
from rankmuster.adapters.kube.find import Find, finder
from rankmuster.adapters.kube.groups.of_kind import GROUPS
from rankmuster.adapters.kube.groups.start_profile import StartProfile
from rankmuster.adapters.kube.node_taint import NodeTaint
from rankmuster.adapters.kube.pod_evidence import PodEvidence
from rankmuster.adapters.kube.pod_probe import PodProbe
from rankmuster.adapters.kube.pool_label import PoolLabel
from rankmuster.adapters.kube.readiness_gate import ReadinessGate
from rankmuster.collect.deadline import Deadline
from rankmuster.environment.draft import ProfileName
from rankmuster.environment.place import Place
from rankmuster.environment.profile import Request, make_profile
from rankmuster.environment.subsystems import suspected
from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH
from rankmuster.incident.actuators import Retest, Traffic
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.journal import Journal
from rankmuster.incident.machine.fold import fold
from rankmuster.incident.steps.wishes import start_wish
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller.copies import Copies
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.policy_config import config_of
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.still_enabled import StillEnabled
from rankmuster.model.incident import StartWish
from rankmuster.model.kube import EVIDENCE_FOLDER, PodView

KEEPS_AWAY = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep new pods from a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What all instances' actuators share. `retest`: of nodes, None where nothing can test them. `copies`: beyond the
    controller's volume. `newer()`: why definitions are not ours to work with."""

    api: Api
    settings: ControllerSettings
    journal: Journal
    fleet: Fleet
    calls: AgentCall
    events: Events
    retest: Retest | None
    copies: Copies
    newer: Callable[[], str] = lambda: ""

    def tools(self, known: Known) -> Tools:
        """Of one instance. Raises PolicyRefused."""
        spec = known.policy.spec
        assert spec is not None  # as in `Controller._runner`
        view = known.view
        find = finder(
            self.api, view.namespace, view.kind, view.workload, index=view.index, grouping=spec.grouping, name=view.name
        )
        config = config_of(spec, self.settings, known.name, {})
        enabled = frozenset(config.enable)
        still = StillEnabled(self.api, self.fleet, self.newer)
        traffic: list[Traffic] = []
        if spec.traffic.readiness_gate:
            traffic.append(ReadinessGate(self.api, "readiness_gate", find, events=self.events))
        if spec.traffic.pool_label is not None:
            traffic.append(PoolLabel(self.api, "pool_label", spec.traffic.pool_label, find, events=self.events))
        group = GROUPS[view.kind](
            self.api,
            find,
            name=view.kind.value,
            elsewhere="node" in enabled and spec.nodes.effect in KEEPS_AWAY,
            container=spec.container,
            profile=self._profile(known, config) if spec.incident_profile else None,
            events=self.events,
            objection=still.of(known, "group"),
        )
        retest = self.retest
        return Tools(
            traffic=tuple(traffic),
            group=group,
            nodes=(
                NodeTaint(
                    self.api,
                    effect=spec.nodes.effect,
                    cordon=spec.nodes.cordon,
                    events=self.events,
                    may=still.of(known, "node"),
                    opened=self._opened,
                ),
            ),
            retest=retest,
            evidence=PodEvidence(
                self.calls,
                self._pods(known, find),
                api=self.api if self.settings.exec_evidence else None,
                container=spec.container,
                sidecar_port=self.settings.sidecar_port,
                agent_port=self.settings.agent_port,
                collected=self.copies.of(spec),
            ),
            probe=None if spec.probe is None else PodProbe(find, spec.probe.port, spec.probe),
            enabled=frozenset(
                role for role in enabled if (role != "traffic" or traffic) and (role != "retest" or retest is not None)
            ),
        )

    def _opened(self, incident: str) -> float | None:
        try:
            events = self.journal.events(incident)
        except KeyError:
            return None
        return events[0].at if events else None

    def _pods(self, known: Known, find: Find) -> Callable[[str, str | None, Deadline], Sequence[PodView]]:
        """Those that are there, and those that were a moment ago: their evidence may lie with an agent."""

        def pods(_instance: str, _incarnation: str | None, deadline: Deadline) -> Sequence[PodView]:
            there = {one.uid: one for one in find(deadline).pods}
            before = {one.uid: one for one in self.fleet.lately(known.key) if _same_group(one, known)}
            return tuple({**before, **there}.values())

        return pods

    def _profile(self, known: Known, config: IncidentConfig) -> StartProfile:
        def expected() -> StartWish:
            head = next(iter(self.journal.incidents(instance=known.name, open_only=True, limit=1)), None)
            if head is None:
                return StartWish()
            return start_wish(config, fold(head.id, self.journal.events(head.id)))

        def variables(suspect: str) -> Mapping[str, str]:
            return incident_variables(known.name, suspect)

        return StartProfile(self.api, known.view.namespace, known.view.workload, expected=expected, variables=variables)


def incident_variables(instance: str, suspect: str) -> dict[str, str]:
    """Of the incident logging profile, in a pod's own volume; none where no profile is known for it."""
    place = Place(EVIDENCE_FOLDER, instance, None, own=True)
    try:
        made = make_profile(
            Request(ProfileName.INCIDENT, ASSUMED_TORCH, ASSUMED_NCCL, place, suspect=suspected(suspect))
        )
    except ValueError:
        return {}
    return {one.name: one.value for one in made.settings}


def _same_group(pod: PodView, known: Known) -> bool:
    names = {one.name for one in known.view.pods}
    return pod.name in names or known.view.index is None or pod.name == known.view.index
