"""Runners of the incident engine for the instances of a cluster, and what becomes of incidents that nobody governs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.budget import DEFAULT_SECONDS
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.facts import facts_of
from rankmuster.incident.notices import Notices
from rankmuster.incident.runner import Runner
from rankmuster.incident.seen import Seen
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller import finalizer
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.kept_out import kept_out
from rankmuster.kube.controller.outside import Outside
from rankmuster.kube.controller.policy_config import config_of, evidence_folder
from rankmuster.kube.controller.runners import Runners
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.model.incident import Event, EventKind, IncidentHead, Step
from rankmuster.model.kube import SIDECAR
from rankmuster.report.inert import plain

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


class Runbooks:
    """`seen`: what the watch says of an instance. `changed`: told of an incident in which something has happened, and
    `policy_changed` of the policy that governs its instance. `current`: the incident that each runner works on."""

    def __init__(
        self,
        settings: ControllerSettings,
        outside: Outside,
        fleet: Fleet,
        *,
        seen: Callable[[str], Seen | None],
        changed: Callable[[str], object],
        policy_changed: Callable[[tuple[str, str]], object],
    ) -> None:
        self._settings, self._outside, self._fleet = settings, outside, fleet
        self._seen, self._changed, self._policy_changed = seen, changed, policy_changed
        self.notices = Notices(settings.hooks, outside.clock, outside.say)
        self.current: dict[str, str] = {}
        self.runners = Runners(fleet, self._runner, self._orphan_runner)
        self._orphans: dict[str, float] = {}
        self._orphans_at = float("-inf")

    def orphans(self, opened: Sequence[IncidentHead]) -> None:
        """Aborts what is open and governed by nobody for too long. Raises what the journal raises."""
        now = self._outside.clock()
        if now - self._orphans_at < ORPHAN_TURN:
            return
        self._orphans_at = now
        alone = [head for head in opened if self._fleet.governed(head.instance) is None]
        self._orphans = {one.id: self._orphans.get(one.id, now) for one in alone}
        for head in alone:
            if now - self._orphans[head.id] >= ORPHAN_SECONDS:
                finalizer.abort(self._outside.journal, [head], self._outside.unix_now(), finalizer.ALONE)
                self.runners.adopt(head.instance)

    def kept_out(self, known: Known) -> str | None:
        """Why new pods of an instance get no traffic; None where they may. Raises what the journal raises."""
        return kept_out(self._outside.journal, known.name, known.incarnation)

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
        notice, outside = self.notices.of(name, self.current), self._outside

        def told(event: Event) -> None:
            incident = self.current.get(name)
            if incident is not None:
                self._changed(incident)
            known = self._fleet.governed(name)
            if known is not None:
                self._policy_changed(known.policy.key)
            if self._settings.dry_run:
                for line in would_lines(event):
                    outside.say(f"{name}: would: {line}")
            if event.kind is EventKind.CLOSED:
                self._forget_profile(tools)
            notice(event)

        return Runner(
            config,
            name,
            tools,
            outside.journal,
            clock=outside.clock,
            unix_now=outside.unix_now,
            holder=outside.holder,
            facts=facts_of(config, name, outside.journal, outside.unix_now),
            seen=lambda: self._seen(name),
            folder=folder,
            host=outside.host,
            told=told,
            followed=lambda: self._has_sidecar(name),
        )

    def _has_sidecar(self, name: str) -> bool:
        """Whether pods of it have one that will tell of the next start; those that are being made are as the last."""
        known = self._fleet.governed(name)
        pods = known.view.pods if known is not None else ()
        return not pods or any(box.name == SIDECAR for pod in pods for box in pod.containers)

    def _forget_profile(self, tools: Tools) -> None:
        """Variables for one start are not for the next one."""
        forget = getattr(tools.group, "forget_profile", None)
        if forget is not None:
            answer = forget(Deadline.after(FORGET_SECONDS, self._outside.clock))
            if not answer.ending.good:
                self._outside.say(answer.note)


def would_lines(event: Event) -> tuple[str, ...]:
    """What an action that only observes would have sent, line by line."""
    would = event.data.get("would") if event.kind is EventKind.RESULT else None
    return tuple(plain(one, 500) for one in would) if isinstance(would, (list, tuple)) else ()
