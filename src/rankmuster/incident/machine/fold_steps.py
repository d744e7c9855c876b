"""Events of steps and actions, each in its place: a plan, a step's begin and end, an intent and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankmuster.incident.machine.legal import ending_of, in_its_place, may_start, needs_no_plan
from rankmuster.incident.machine.plan import NEEDED, planned_from
from rankmuster.incident.machine.state import PEOPLE, ActionState, Incident, Planned, StepState
from rankmuster.incident.machine.story import refuse
from rankmuster.model.incident import Ending, Event, Step


def planned(incident: Incident, event: Event) -> Incident:
    """What waits is replaced by the new plan; what runs and what has ended stays. A step that has ended and is planned
    again goes to `earlier`, and comes anew."""
    try:
        plan = planned_from(event.data)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        refuse(incident, event, f"the plan cannot be read ({type(error).__name__}: {error})")
    names = [one.step for one in plan]
    if len(set(names)) != len(names):
        refuse(incident, event, "a step is planned twice in one plan")
    kept = [one for one in incident.steps if not one.waiting]
    for state in kept:
        if state.running and state.step in names:
            refuse(incident, event, f"{state.step.value} is running and cannot be planned again")
    again = tuple(one for one in kept if one.step in names)
    kept = [one for one in kept if one.step not in names]
    known = {one.step for one in kept} | set(names)
    for one in plan:
        for before in one.after:
            if before not in known:
                refuse(incident, event, f"{one.step.value} is to come after {before.value}, which is in no plan")
        if not one.seconds > 0:
            refuse(incident, event, f"{one.step.value} is given {one.seconds:g} s")
    given = event.data.get("seconds")
    seconds = {**incident.seconds, **_all_seconds(given), **{one.step: one.seconds for one in plan}}
    total = seconds_in(event.data.get("total_seconds"))
    return replace(
        incident,
        steps=(*kept, *(StepState(one) for one in plan)),
        earlier=(*incident.earlier, *again),
        planned=True,
        planned_at=event.sequence,
        seconds=seconds,
        total_seconds=incident.total_seconds if total is None else total,
        free_undecided=bool(event.data.get("free_undecided", incident.free_undecided)),
        can_elsewhere=bool(event.data.get("can_elsewhere", incident.can_elsewhere)),
    )


def begun(incident: Incident, event: Event) -> Incident:
    step = step_of(incident, event)
    state = incident.step(step)
    deadline = seconds_in(event.data.get("deadline_at"))
    if deadline is None:
        refuse(incident, event, f"{step.value} is begun without a deadline (data: deadline_at)")
    if state is not None and state.running:
        refuse(incident, event, f"{step.value} runs already; a runner that takes it over goes on with it")
    emergency = needs_no_plan(incident, step)
    if incident.deadline is not None and not emergency:
        refuse(incident, event, "the total deadline has passed: nothing is begun but what frees the GPUs")
    beside = [one.step.value for one in incident.running if one.step is not Step.DRAIN]
    if step is Step.TERMINATE and beside:
        refuse(incident, event, f"{', '.join(beside)} is running: what looks at the group, or acts on it, ends first")
    if state is None or not state.waiting:
        if not emergency:
            why = "is in no plan" if state is None else f"has ended already ({ending_of(state)})"
            refuse(incident, event, f"{step.value} {why}")
        earlier = incident.earlier if state is None else (*incident.earlier, state)
        fresh = StepState(
            Planned(step, (), incident.of(step), step in NEEDED), event.at, deadline, begun=event.sequence
        )
        others = tuple(one for one in incident.steps if one.step is not step)
        return replace(incident, steps=(*others, fresh), earlier=earlier)
    if not emergency:
        in_its_place(incident, event, state)
    after = _with(incident, replace(state, begun_at=event.at, deadline_at=deadline, begun=event.sequence))
    if step is Step.APPROVE:
        return replace(after, approval=None)
    return replace(after, decided_at=0) if step is Step.DECIDE else after


def ended(incident: Incident, event: Event) -> Incident:
    step = step_of(incident, event)
    state = incident.step(step)
    if event.ending is None:
        refuse(incident, event, "it does not say how the step ended")
    if state is None or state.ended:
        why = "is in no plan" if state is None else f"has ended already ({ending_of(state)})"
        refuse(incident, event, f"{step.value} {why}")
    if state.waiting and event.ending not in (Ending.SKIPPED, Ending.REFUSED):
        refuse(incident, event, f"{step.value} was never begun, so it can only be skipped or refused")
    unknown = [one.name for one in state.actions if one.open]
    if unknown:
        refuse(
            incident, event, f"{', '.join(unknown)} has no result yet: what came of it is written before its step ends"
        )
    if step is Step.DECIDE and event.ending is Ending.DONE:
        begun = state.begun_at
        if begun is None or not incident.planned_at > incident.decided_at > 0 or incident.decision is None:
            refuse(incident, event, "DECIDE ends after DECIDED and then PLANNED were written, in this order")
    after = _with(
        incident,
        replace(
            state,
            ended_at=event.at,
            ending=event.ending,
            note=event.note,
            data=dict(event.data),
            over=event.sequence,
        ),
    )
    if step in PEOPLE and state.begun_at is not None:
        after = replace(after, waited=after.waited + max(0.0, event.at - max(state.begun_at, after.begun_at)))
    return after


def intent(incident: Incident, event: Event) -> Incident:
    step = step_of(incident, event)
    state = incident.step(step)
    if not event.action:
        refuse(incident, event, "an intent without an action's name")
    if state is None or not state.running:
        refuse(incident, event, f"{step.value} is not running, so nothing may be done for it")
    before = state.action(event.action)
    if before is not None and not before.open:
        refuse(incident, event, f"{event.action} was done already ({before.ending.value if before.ending else ''})")
    if before is not None and before.runner == incident.runners:
        refuse(incident, event, f"{event.action} was begun already by this runner, and has no result yet")
    if step is Step.START:
        may_start(incident, event)
    action = ActionState(event.action, event.at, incident.runners, intent=dict(event.data))
    if before is not None:
        action = replace(action, intent_at=before.intent_at)
        others = tuple(action if one.name == event.action else one for one in state.actions)
        return _with(incident, replace(state, actions=others))
    return _with(incident, replace(state, actions=(*state.actions, action)))


def result(incident: Incident, event: Event) -> Incident:
    step = step_of(incident, event)
    state = incident.step(step)
    before = None if state is None or event.action is None else state.action(event.action)
    if state is None or before is None or not before.open:
        refuse(incident, event, "there is no open intent of it")
    if event.ending is None:
        refuse(incident, event, "it does not say how the action ended")
    done = replace(before, ending=event.ending, ended_at=event.at, note=event.note, result=dict(event.data))
    after = _with(
        incident, replace(state, actions=tuple(done if one.name == done.name else one for one in state.actions))
    )
    started = event.data.get("incarnation")
    if step is Step.START and event.ending is Ending.DONE and isinstance(started, str):
        return replace(after, incarnation=started)
    return after


def _with(incident: Incident, state: StepState) -> Incident:
    return replace(incident, steps=tuple(state if one.step is state.step else one for one in incident.steps))


def step_of(incident: Incident, event: Event) -> Step:
    if event.step is None:
        refuse(incident, event, "it does not say of which step")
    return event.step


def seconds_in(raw: Any) -> float | None:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and math.isfinite(raw) and raw > 0:
        return float(raw)
    return None


def _all_seconds(raw: Any) -> dict[Step, float]:
    found: dict[Step, float] = {}
    if isinstance(raw, Mapping):
        for name, value in raw.items():
            seconds = seconds_in(value)
            if seconds is not None and name in {one.value for one in Step}:
                found[Step(name)] = seconds
    return found
