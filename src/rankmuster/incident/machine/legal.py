"""Which step may begin: the order, what is needed, and the few that need no plan."""

from __future__ import annotations

from rankmuster.incident.budget import FREE_GPUS
from rankmuster.incident.machine.state import Incident, StepState
from rankmuster.incident.machine.story import refuse
from rankmuster.model.incident import Ending, Event, Step


def in_its_place(incident: Incident, event: Event, state: StepState) -> None:
    """A step begins after those that come before it, and only where what it needs is there."""
    for name in state.planned.after:
        before = incident.step(name)
        if before is not None and not before.ended:
            refuse(incident, event, f"{state.step.value} comes after {name.value}, which has not ended")
    blocked = blocked_by(incident, state)
    if blocked is not None:
        refuse(incident, event, f"{state.step.value} needs {blocked.step.value}, which ended {ending_of(blocked)}")


def blocked_by(incident: Incident, state: StepState) -> StepState | None:
    """The needed step before this one, at any distance, that did not end well; None where nothing is in the way.

    A node that cannot free its GPU does not keep the group from being started elsewhere.
    """
    seen: set[Step] = set()
    look = list(state.planned.after)
    while look:
        name = look.pop()
        if name in seen:
            continue
        seen.add(name)
        before = incident.step(name)
        if before is None:
            continue
        look.extend(before.planned.after)
        if not before.planned.needed or not before.ended or before.well:
            continue
        if before.step is Step.TERMINATE and before.ending is Ending.NODE and starts_elsewhere(incident):
            continue
        return before
    return None


def starts_elsewhere(incident: Incident) -> bool:
    """Whether a group whose node cannot be freed is started on other nodes: possible, known, and within the time."""
    return incident.can_elsewhere and bool(incident.stuck_nodes) and incident.deadline is None


def needs_no_plan(incident: Incident, step: Step) -> bool:
    """Steps that are begun whatever the plan says: freeing the GPUs after the total deadline, fencing the node that
    cannot free its GPU, giving traffic back to a group that was not touched, and deciding again after an approval."""
    if step is Step.RESTORE:
        over = incident.aborted is not None or incident.lapsed or incident.undecided
        return over and incident.traffic_touched and not incident.group_touched
    if step is Step.FENCE:
        return incident.stuck
    if step is Step.DECIDE:
        return incident.decides_again
    return incident.deadline is not None and step in FREE_GPUS


def may_start(incident: Incident, event: Event) -> None:
    """Held here a second time, whatever a plan says: two groups on the same GPUs, or one rank beside the old ones."""
    terminate = incident.step(Step.TERMINATE)
    if terminate is None:
        refuse(
            incident, event, "a group is started only after the whole of the old one was ended, and no plan had that"
        )
    if terminate.ending is Ending.NODE and starts_elsewhere(incident):
        return
    if not terminate.well:
        refuse(incident, event, f"the old group is not known to be gone: terminate is {ending_of(terminate)}")


def ending_of(state: StepState) -> str:
    """For messages: how it ended, or that it runs or waits."""
    return state.ending.value if state.ending is not None else ("running" if state.running else "waiting")
