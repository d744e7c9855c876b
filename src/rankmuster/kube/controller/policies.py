"""The status of CommunicationPolicies: what each governs, and every reason why something is not done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import POLICIES, Api, Kind, NotThere, Object
from rankmuster.adapters.kube.fields import moment
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.kube.controller.conditions import Wanted, conditions
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.matching import PolicyView
from rankmuster.kube.controller.policy_config import PolicyRefused, config_of, gateways_that_ignore_it, read_policy
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.states import SKEW_SECONDS, States
from rankmuster.model.fault import Progress
from rankmuster.model.kube import FINALIZER, GATE
from rankmuster.report.inert import plain

CALL_SECONDS = 10.0
MOST_INSTANCES = 100
MOST_NAMED = 5


def policy_view(raw: Object) -> PolicyView | None:
    """A policy as the watch told of it; None for what has no name."""
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        return None
    generation = metadata.get("generation")
    spec, problem = None, ""
    try:
        spec = read_policy(raw.get("spec"))
    except PolicyRefused as error:
        problem = plain(error, 800)
    return PolicyView(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or ""),
        generation=generation if isinstance(generation, int) else 0,
        spec=spec,
        problem=problem,
        deleting_since=moment(metadata, "deletionTimestamp"),
        held=FINALIZER in (metadata.get("finalizers") or ()),
    )


class Policies:
    """`open_incidents()`: instances that have one. `missing()`: kinds of workloads that this cluster does not know."""

    def __init__(
        self,
        api: Api,
        fleet: Fleet,
        states: States,
        settings: ControllerSettings,
        open_incidents: Callable[[], frozenset[str]],
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        newer: Callable[[Kind], str] = lambda _: "",
    ) -> None:
        self._api, self._fleet, self._states, self._settings = api, fleet, states, settings
        self._open, self._clock, self._unix_now, self._newer = open_incidents, clock, unix_now, newer
        self._written: dict[tuple[str, str], dict[str, Any]] = {}

    def reconcile(self, key: tuple[str, str], before: Mapping[str, Any]) -> None:
        """Writes the status where it is not as it should be. `before`: the one that it has. Raises KubeError."""
        policy = self._fleet.known_policy(key)
        if policy is None:
            self._written.pop(key, None)
            return
        status = self.status(policy, before)
        if _same(self._written.get(key), status):
            return
        body = {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": policy.name, "namespace": policy.namespace},
            "status": status,
        }
        try:
            self._api.apply(POLICIES, body, Deadline.after(CALL_SECONDS, self._clock), force=True, subresource="status")
        except NotThere:
            self._written.pop(key, None)
            return
        self._written[key] = status

    def status(self, policy: PolicyView, before: Mapping[str, Any]) -> dict[str, Any]:
        """As it should be now."""
        known = self._fleet.of_policy(policy.key)
        opened = self._open()
        rows = sorted((self._row(one) for one in known), key=lambda one: (not one.get("problem"), one["name"]))
        return {
            "observedGeneration": policy.generation,
            "matched": len(known),
            "openIncidents": sum(one.name in opened for one in known),
            "instances": rows[:MOST_INSTANCES],
            "conditions": conditions(
                self._conditions(policy, known), before.get("conditions"), self._unix_now(), policy.generation
            ),
        }

    def _row(self, one: Known) -> dict[str, Any]:
        state = self._states.state(one.name)
        progress = state.view.state.value if state is not None and state.view is not None else Progress.UNKNOWN.value
        problem = one.view.problem or (state.problem if state is not None and state.view is None else "")
        return {
            "name": one.name,
            "workload": f"{one.key.kind.value}/{one.key.name}",
            "pods": len(one.view.pods),
            "progress": progress,
            "problem": plain(problem, 1_000)[:1_000],
        }

    def _conditions(self, policy: PolicyView, known: tuple[Known, ...]) -> list[Wanted]:
        newer = self._newer(POLICIES)
        if newer:
            return [Wanted("Accepted", False, "NewerSchema", newer), Wanted("Acting", False, "NotAccepted")]
        spec = policy.spec
        if spec is None:
            return [
                Wanted("Accepted", False, "Refused", policy.problem),
                Wanted("Acting", False, "NotAccepted", "nothing is done for a policy that cannot be read"),
            ]
        accepted, acting = self._accepted(policy), self._acting(policy)
        if not accepted.status and acting.status:
            acting = Wanted("Acting", False, "NotAccepted", "nothing is done for a policy that is not accepted")
        found = [accepted, acting, self._matched(policy, known)]
        found.append(self._identity(known))
        found.append(self._seen(known))
        if spec.traffic.readiness_gate:
            found.append(self._gates(policy, known))
        return found

    def _accepted(self, policy: PolicyView) -> Wanted:
        try:
            if policy.spec is not None:
                deaf = gateways_that_ignore_it(policy.spec)
                if deaf:
                    return Wanted("Accepted", False, "GatewayIgnoresIt", plain(deaf, 800))
                config_of(policy.spec, self._settings, policy.name, {})
        except PolicyRefused as error:
            return Wanted("Accepted", False, "Refused", plain(error, 800))
        return Wanted("Accepted", True, "Accepted")

    def _matched(self, policy: PolicyView, known: tuple[Known, ...]) -> Wanted:
        several = self._fleet.ambiguous(policy.key)
        if several:
            some = ", ".join(str(one) for one in several[:MOST_NAMED])
            words = (
                f"it matches {len(several)} workloads and governs none of them: {some}; narrow spec.selector, or set "
            )
            return Wanted("Matched", False, "SeveralWorkloads", words + "spec.several where all of them are meant")
        contested = {
            key: names for key, names in self._fleet.contested(policy.namespace).items() if policy.name in names
        }
        if contested:
            some = "; ".join(f"{key} by {', '.join(names)}" for key, names in list(contested.items())[:MOST_NAMED])
            words = f"{len(contested)} workloads are matched by several policies, and nothing is done for them: {some}"
            return Wanted("Matched", False, "Contested", words)
        if not known:
            return Wanted("Matched", False, "NothingMatched", "no workload has the labels that spec.selector names")
        return Wanted("Matched", True, "Matched", f"{len(known)} instances")

    def _acting(self, policy: PolicyView) -> Wanted:
        spec = policy.spec
        wanted = spec.enable if spec is not None else ()
        may = [one for one in wanted if one in self._settings.enable]
        beyond = [one for one in wanted if one not in self._settings.enable]
        if self._settings.dry_run:
            return Wanted("Acting", False, "DryRun", "the controller runs with dry_run: it says what it would do")
        if spec is not None and spec.paused:
            return Wanted("Acting", False, "Paused", "spec.paused: no incident is opened")
        if beyond:
            words = f"enabled here and not in the controller's settings: {', '.join(beyond)}"
            return Wanted("Acting", bool(may), "NotAllowed", words)
        if not may:
            return Wanted("Acting", False, "Observing", "spec.enable is empty: it is only said what would be done")
        return Wanted("Acting", True, "Enabled", ", ".join(may))

    def _identity(self, known: tuple[Known, ...]) -> Wanted:
        bad = [one for one in known if one.view.problem]
        if bad:
            some = "; ".join(f"{one.name}: {one.view.problem}" for one in bad[:MOST_NAMED])
            return Wanted("Identified", False, "NotEnough", plain(f"nothing is done for {len(bad)}: {some}", 1_000))
        if not known:
            return Wanted("Identified", None, "NothingMatched")
        return Wanted("Identified", True, "Identified")

    def _seen(self, known: tuple[Known, ...]) -> Wanted:
        blind, skewed = [], []
        for one in known:
            state = self._states.state(one.name)
            if state is None or state.view is None:
                blind.append(f"{one.name}: {state.problem if state is not None else 'not asked yet'}")
            elif abs(state.skew) > SKEW_SECONDS:
                skewed.append(f"{one.name} by {state.skew:+.0f} s")
        if blind:
            some = "; ".join(blind[:MOST_NAMED])
            return Wanted("Seen", False, "Blind", plain(f"of {len(blind)} nothing is known: {some}", 1_000))
        if skewed:
            some = "; ".join(skewed[:MOST_NAMED])
            return Wanted(
                "Seen", True, "ClocksDiffer", plain(f"clocks of pods differ from the controller's: {some}", 1_000)
            )
        return Wanted("Seen", True if known else None, "Seen" if known else "NothingMatched")

    def _gates(self, policy: PolicyView, known: tuple[Known, ...]) -> Wanted:
        without = [pod.name for one in known for pod in one.view.pods if GATE not in pod.gates]
        if without:
            some = ", ".join(without[:MOST_NAMED])
            words = f"pods without the gate in their spec: {some}; `rankmuster kube inject --gate` adds it"
            return Wanted("Gated", False, "NoGate", words)
        acts = policy.spec is not None and "traffic" in policy.spec.enable and "traffic" in self._settings.enable
        if not acts or self._settings.dry_run:
            waiting = [pod.name for one in known for pod in one.view.pods if pod.gates.get(GATE) is not True]
            if waiting:
                some = ", ".join(waiting[:MOST_NAMED])
                words = (
                    f"{some} wait for the gate, and nobody opens it: enable traffic, or take the gate out of the pods"
                )
                return Wanted("Gated", False, "NobodyOpens", words)
        return Wanted("Gated", True, "Gated")


def _same(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    return before is not None and before == now
