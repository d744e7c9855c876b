"""Exactly what a runbook would do: every step with its deadline, every call with its real target. Asks nobody.

The state machine and the decision are the real ones, fed with answers that say that all went well: what they plan is
what a runner would do in that case. Nothing is written, and the same settings say the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rankmuster.incident.actuators import Verb
from rankmuster.incident.budget import Budget
from rankmuster.incident.config import IncidentConfig, InstanceConfig
from rankmuster.incident.decide import decide, settings_of
from rankmuster.incident.facts import FactsOf
from rankmuster.incident.machine.fold import advance, fold
from rankmuster.incident.machine.plan import opening_plan, plan_after, planned_event
from rankmuster.incident.machine.state import Approval, Incident, Planned
from rankmuster.incident.steps.wishes import start_wish
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Course, Decision, Ending, Event, EventKind, Opening, Step
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.model.verdict import Verdict

BOUNDS = Bounds(text=1 << 16, members=1 << 14)

NAME = "INCIDENT"
"""Stands for the id that a real one would get."""

OFF = "not enabled, so it would only be said"


def lines(
    config: IncidentConfig,
    tools: Tools,
    budget: Budget,
    facts: FactsOf,
    opening: Opening,
    verdict: Verdict | None,
    folder: Path,
) -> tuple[str, ...]:
    """One line each. `verdict` None: that of the opening, or what is done where nothing decides."""
    incident = fold(NAME, [Event(kind=EventKind.OPENED, at=opening.at, sequence=1, data=to_plain(opening, BOUNDS))])
    first = opening_plan(opening, budget, config.approve)
    incident = _planned(incident, first, budget)
    known, notes = facts(None, verdict)
    elsewhere = tools.group is not None and tools.group.elsewhere
    known = replace(known, progress=None, elsewhere=elsewhere)
    decision = decide(verdict, opening, known, settings_of(config))
    if decision.course is Course.HOLD:
        plan: tuple[Planned, ...] = plan_after(decision, incident, budget, config.approve, can_elsewhere=elsewhere)
        plan = tuple(one for one in plan if one.step is Step.APPROVE)
    else:
        # those steps have begun by the time of the decision, and a later plan knows it
        begun = _begun(incident, first)
        plan = plan_after(decision, begun, budget, config.approve, can_elsewhere=elsewhere)
    opened = incident
    incident = replace(_planned(incident, (), budget), decision=decision, can_elsewhere=elsewhere)
    said = [f"{opening.instance}: {opening.by.value}, incarnation {opening.incarnation or 'unknown'}"]
    said.append(f"within {budget.total:g} s in all, without the time that people are waited for")
    scene = _Would(config, tools, opening, incident, decision, folder)
    for one in (*first, *plan):
        said += _step(scene, one, opening)
        if one.step is Step.DECIDE:
            said.append(f"    {decision.course.value} ({decision.boundary.value}): {'; '.join(decision.why)}")
            said += [f"    held: {decision.held}"] if decision.held else []
    if decision.course is Course.HOLD:
        approved = replace(known, approved=Boundary.PROCESS_GROUP, approved_by="an operator")
        then = decide(verdict, opening, approved, settings_of(config))
        word = Approval("an operator", opening.at, Boundary.PROCESS_GROUP)
        begun = replace(_begun(opened, first), approval=word)
        rest = plan_after(then, begun, budget, config.approve, can_elsewhere=elsewhere)
        scene = _Would(config, tools, opening, replace(incident, decision=then), then, folder)
        said.append("and once an operator approves process_group:")
        for one in rest:
            said += _step(scene, one, opening)
    said += [f"not known: {note}" for note in notes]
    said.append("limits and the circuit breaker are asked when it is decided")
    return tuple(said)


class _Would:
    """What each step's actuators say that they would do."""

    def __init__(
        self,
        config: IncidentConfig,
        tools: Tools,
        opening: Opening,
        incident: Incident,
        decision: Decision,
        folder: Path,
    ) -> None:
        self.config, self.tools, self.opening = config, tools, opening
        self.incident, self.decision, self.folder = incident, decision, folder

    def of(self, step: Step) -> Iterator[tuple[ToolRole | None, str, tuple[str, ...]]]:
        """(the role that has to be enabled, the actuator, its lines)."""
        verbs = {Step.STOP_TRAFFIC: Verb.STOP_NEW, Step.CUT: Verb.CUT, Step.RESTORE: Verb.RESTORE}
        tools, opening = self.tools, self.opening
        if step in verbs:
            for gateway in tools.traffic:
                yield ToolRole.TRAFFIC, gateway.name, gateway.would(verbs[step])
        elif step is Step.SHED:
            for gateway in tools.traffic:
                yield ToolRole.TRAFFIC, gateway.name, gateway.would(Verb.SET_WEIGHT, percent=self.config.slow.percent)
        elif step is Step.FENCE:
            for node in self.incident.to_fence:
                for where in tools.nodes:
                    yield ToolRole.NODE, where.name, where.would(Verb.FENCE, node, NAME, self._why())
        elif step is Step.SETTLE:
            for node in self.incident.to_fence:
                for where in tools.nodes:
                    told = (f"{one} (only if its re-test passes)" for one in where.would(Verb.LIFT, node, NAME))
                    yield ToolRole.NODE, where.name, tuple(told)
        elif step is Step.TERMINATE and tools.group is not None:
            would = tools.group.would(Verb.TERMINATE, incarnation=opening.incarnation)
            yield ToolRole.GROUP, tools.group.name, would
        elif step is Step.START and tools.group is not None:
            wish = start_wish(self.config, self.incident)
            would = tools.group.would(Verb.START, incarnation=opening.incarnation, wish=wish)
            yield ToolRole.GROUP, tools.group.name, would
        elif step in (Step.RETEST, Step.SHORT_RETEST) and tools.retest is not None:
            settings = self.config.instances.get(opening.instance, InstanceConfig()).retest
            good = next((one for one in (settings.good if settings else ()) if one not in self.decision.retest), None)
            would = tools.retest.would(self.decision.retest, good, short=step is Step.SHORT_RETEST)
            yield ToolRole.RETEST, tools.retest.name, would
        elif step is Step.EVIDENCE and tools.evidence is not None:
            where_to = self.folder / NAME / "evidence"
            yield None, tools.evidence.name, (f"collect evidence of {opening.instance} into {where_to}",)
        elif step is Step.VERIFY and tools.probe is not None:
            yield None, tools.probe.name, ("ask until a good answer comes",)

    def _why(self) -> str:
        fault = self.decision.subclass.value if self.decision.subclass is not None else self.decision.class_.value
        return f"{self.opening.instance}: {fault}"


def _step(scene: _Would, one: Planned, opening: Opening) -> list[str]:
    after = f", after {', '.join(before.value for before in one.after)}" if one.after else ""
    said = [f"{one.step.value}: at most {one.seconds:g} s{after}"]
    if one.step is Step.DRAIN and opening.progress is Progress.STOPPED:
        return [f"{said[0]}; skipped, since progress is stopped"]
    found = list(scene.of(one.step))
    for role, name, would in found:
        off = role is not None and not scene.tools.acts(role)
        said += [f"    {name}: {line}" + (f" ({OFF})" if off else "") for line in would]
    if not found and one.step in NEEDS:
        said.append(f"    {NEEDS[one.step]}")
    return said


NEEDS = {
    Step.SHED: "no gateway is configured",
    Step.STOP_TRAFFIC: "no gateway is configured",
    Step.CUT: "no gateway is configured",
    Step.RESTORE: "no gateway is configured",
    Step.FENCE: "nothing is configured that keeps work from nodes",
    Step.TERMINATE: "nothing is configured that ends the group: by hand",
    Step.START: "nothing is configured that starts the group: by hand",
    Step.SHORT_RETEST: "no re-test is configured",
    Step.RETEST: "no re-test is configured",
    Step.EVIDENCE: "nothing is configured that saves evidence",
    Step.VERIFY: "no probe is configured: the watch has to see it advance",
    Step.APPROVE: "an operator is waited for: `rankmuster incident approve`",
}


def _planned(incident: Incident, plan: tuple[Planned, ...], budget: Budget) -> Incident:
    return advance(incident, planned_event(plan, at=incident.opened_at, by="", budget=budget))


def _begun(incident: Incident, plan: tuple[Planned, ...]) -> Incident:
    """As if each of them had come to its end."""
    at = incident.opened_at
    state = incident
    for one in plan:
        steps = tuple(
            replace(step, begun_at=at, deadline_at=at + one.seconds, ended_at=at, ending=Ending.DONE)
            if step.step is one.step and step.step is not Step.DECIDE
            else step
            for step in state.steps
        )
        state = replace(state, steps=steps)
    return state
