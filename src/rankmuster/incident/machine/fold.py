"""Events to state: `advance` takes one, or refuses it with the whole story; `fold` replays a journal.

A runner's own events have to be legal, each in its place. What operators and the watch write (APPROVED, ABORTED,
REOPENED, SEEN, NOTED) races with the runner, so it is never refused: where it comes too late it changes nothing, and
what a runner writes before it has read of an ABORTED stands.

The order in which a decision is written: STEP_BEGUN of DECIDE, DECIDED, PLANNED, STEP_ENDED. So a runner that dies in
between leaves a DECIDE that still runs, and never an incident that has nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from rankmuster.incident.machine.legal import ending_of, in_its_place, may_start, needs_no_plan
from rankmuster.incident.machine.plan import NEEDED, planned_from
from rankmuster.incident.machine.state import (
    PEOPLE,
    RESUMABLE,
    ActionState,
    Approval,
    Incident,
    Planned,
    StepState,
)
from rankmuster.incident.machine.story import IllegalTransition, refuse
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Decision, Ending, Event, EventKind, Opening, Outcome, Step
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain

BOUNDS = Bounds(text=1 << 20, members=1 << 16)

RECENT = 8
"""Events that an error's story tells."""

OUTSIDE = (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED, EventKind.SEEN, EventKind.NOTED)
"""Written by operators and by the watch too, without a lease."""

__all__ = ["IllegalTransition", "advance", "fold"]


def fold(incident: str, events: Iterable[Event]) -> Incident:
    """The incident that these events are, oldest first. Raises IllegalTransition, also where there is none."""
    state: Incident | None = None
    for event in events:
        state = _opened(incident, event) if state is None else advance(state, event)
    if state is None:
        raise IllegalTransition(f"incident {incident} has no events: it was never opened")
    return state


def advance(incident: Incident, event: Event) -> Incident:
    """The incident after this event. `sequence` 0 stands for the next one. Raises IllegalTransition."""
    wanted = incident.sequence + 1
    event = event if event.sequence else replace(event, sequence=wanted)
    if event.sequence != wanted:
        refuse(
            incident, event, f"its sequence is {event.sequence} where {wanted} comes next: events are missing or twice"
        )
    if not math.isfinite(event.at):
        refuse(incident, event, "it has no time")
    if incident.closed is not None and event.kind not in OUTSIDE:
        refuse(incident, event, f"the incident is closed ({incident.closed.value}), and closed is final until a resume")
    after = _HANDLERS[event.kind](incident, event)
    return replace(
        after,
        sequence=wanted,
        last_at=max(incident.last_at, event.at),
        recent=(*incident.recent[-(RECENT - 1) :], event),
    )


def _opened(name: str, event: Event) -> Incident:
    if event.kind is not EventKind.OPENED:
        raise IllegalTransition(f"incident {name} begins with {event.kind.value}, not with its opening")
    try:
        opening = from_plain(Opening, dict(event.data), BOUNDS)
    except NotPlain as error:
        raise IllegalTransition(f"incident {name}: its opening cannot be read: {error}") from error
    return Incident(
        id=name,
        opening=opening,
        opened_at=event.at,
        begun_at=event.at,
        progress=opening.progress,
        last_at=event.at,
        sequence=max(event.sequence, 1),
        total_seconds=_seconds(event.data.get("total_seconds")),
        incarnation=opening.incarnation,
        recent=(event,),
    )


def _opened_again(incident: Incident, event: Event) -> Incident:
    refuse(incident, event, "it is opened already")


def _runner(incident: Incident, _: Event) -> Incident:
    return replace(incident, runners=incident.runners + 1)


def _planned(incident: Incident, event: Event) -> Incident:
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
    total = _seconds(event.data.get("total_seconds"))
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


def _begun(incident: Incident, event: Event) -> Incident:
    step = _step_of(incident, event)
    state = incident.step(step)
    deadline = _seconds(event.data.get("deadline_at"))
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


def _ended(incident: Incident, event: Event) -> Incident:
    step = _step_of(incident, event)
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


def _intent(incident: Incident, event: Event) -> Incident:
    step = _step_of(incident, event)
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


def _result(incident: Incident, event: Event) -> Incident:
    step = _step_of(incident, event)
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


def _decided(incident: Incident, event: Event) -> Incident:
    state = incident.step(Step.DECIDE)
    if state is None or not state.running:
        refuse(incident, event, "decide is not running")
    try:
        decision = from_plain(Decision, dict(event.data), BOUNDS)
    except NotPlain as error:
        refuse(incident, event, f"the decision cannot be read: {error}")
    return replace(incident, decision=decision, decided_at=event.sequence)


def _seen(incident: Incident, event: Event) -> Incident:
    progress = event.data.get("progress")
    incarnation = event.data.get("incarnation")
    after = incident
    if isinstance(progress, str) and progress in {one.value for one in Progress}:
        after = replace(after, progress=Progress(progress), progress_seen=event.sequence)
    if isinstance(incarnation, str):
        after = replace(after, seen_incarnation=incarnation)
    return after


def _approved(incident: Incident, event: Event) -> Incident:
    waits = incident.step(Step.APPROVE)
    if incident.closed is not None or waits is None or not waits.running or incident.approval is not None:
        return incident
    named = event.data.get("boundary")
    boundary = Boundary(named) if isinstance(named, str) and named in {one.value for one in Boundary} else None
    approval = Approval(event.by, event.at, boundary, event.note, event.data.get("by_limits") is True)
    return replace(incident, approval=approval)


def _aborted(incident: Incident, event: Event) -> Incident:
    if incident.closed is not None or incident.aborted is not None:
        return incident
    return replace(incident, aborted=event)


def _deadline(incident: Incident, event: Event) -> Incident:
    if incident.deadline is not None:
        refuse(incident, event, "the total deadline has passed already")
    return replace(incident, deadline=event)


def _noted(incident: Incident, _: Event) -> Incident:
    return incident


def _closed(incident: Incident, event: Event) -> Incident:
    running = [one.step.value for one in incident.running]
    if running:
        refuse(incident, event, f"{', '.join(running)} is still running")
    try:
        outcome = Outcome(event.data.get("outcome"))
    except ValueError:
        refuse(incident, event, f"{event.data.get('outcome')!r} is no outcome")
    return replace(incident, closed=outcome, closed_at=event.at)


def _reopened(incident: Incident, event: Event) -> Incident:
    if incident.closed is None or incident.closed not in RESUMABLE:
        return incident
    return replace(
        incident,
        round=incident.round + 1,
        begun_at=event.at,
        waited=0.0,
        planned=False,
        decided_at=0,
        earlier=(*incident.earlier, *(one for one in incident.steps if one.ended)),
        steps=(),
        approval=None,
        aborted=None,
        deadline=None,
        closed=None,
        closed_at=None,
    )


_HANDLERS: Mapping[EventKind, Callable[[Incident, Event], Incident]] = {
    EventKind.OPENED: _opened_again,
    EventKind.RUNNER: _runner,
    EventKind.PLANNED: _planned,
    EventKind.STEP_BEGUN: _begun,
    EventKind.STEP_ENDED: _ended,
    EventKind.INTENT: _intent,
    EventKind.RESULT: _result,
    EventKind.DECIDED: _decided,
    EventKind.SEEN: _seen,
    EventKind.APPROVED: _approved,
    EventKind.ABORTED: _aborted,
    EventKind.DEADLINE: _deadline,
    EventKind.NOTED: _noted,
    EventKind.CLOSED: _closed,
    EventKind.REOPENED: _reopened,
}


def _with(incident: Incident, state: StepState) -> Incident:
    return replace(incident, steps=tuple(state if one.step is state.step else one for one in incident.steps))


def _step_of(incident: Incident, event: Event) -> Step:
    if event.step is None:
        refuse(incident, event, "it does not say of which step")
    return event.step


def _seconds(raw: Any) -> float | None:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and math.isfinite(raw) and raw > 0:
        return float(raw)
    return None


def _all_seconds(raw: Any) -> dict[Step, float]:
    found: dict[Step, float] = {}
    if isinstance(raw, Mapping):
        for name, value in raw.items():
            seconds = _seconds(value)
            if seconds is not None and name in {one.value for one in Step}:
                found[Step(name)] = seconds
    return found
