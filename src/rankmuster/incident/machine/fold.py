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

from rankmuster.incident.machine.fold_steps import begun, ended, intent, planned, result, seconds_in
from rankmuster.incident.machine.state import (
    RESUMABLE,
    Approval,
    Incident,
)
from rankmuster.incident.machine.story import IllegalTransition, refuse
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Decision, Event, EventKind, Opening, Outcome, Step
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
        last_known=opening.progress,
        last_at=event.at,
        sequence=max(event.sequence, 1),
        total_seconds=seconds_in(event.data.get("total_seconds")),
        incarnation=opening.incarnation,
        recent=(event,),
    )


def _opened_again(incident: Incident, event: Event) -> Incident:
    refuse(incident, event, "it is opened already")


def _runner(incident: Incident, _: Event) -> Incident:
    return replace(incident, runners=incident.runners + 1)


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
        seen = Progress(progress)
        known = incident.last_known if seen is Progress.UNKNOWN else seen
        after = replace(after, progress=seen, progress_seen=event.sequence, last_known=known)
    if isinstance(incarnation, str):
        first = incident.first_seen_incarnation or incarnation
        after = replace(after, seen_incarnation=incarnation, first_seen_incarnation=first)
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
    EventKind.PLANNED: planned,
    EventKind.STEP_BEGUN: begun,
    EventKind.STEP_ENDED: ended,
    EventKind.INTENT: intent,
    EventKind.RESULT: result,
    EventKind.DECIDED: _decided,
    EventKind.SEEN: _seen,
    EventKind.APPROVED: _approved,
    EventKind.ABORTED: _aborted,
    EventKind.DEADLINE: _deadline,
    EventKind.NOTED: _noted,
    EventKind.CLOSED: _closed,
    EventKind.REOPENED: _reopened,
}
