"""The error of an event that does not fit: it tells the whole story of the incident, for whoever finds it in a log."""

from __future__ import annotations

from typing import NoReturn

from rankmuster.incident.machine.state import Incident, StepState
from rankmuster.model.incident import Event


class IllegalTransition(Exception):
    """An event that may not come here. The incident is as it was."""


def refuse(incident: Incident, event: Event, why: str) -> NoReturn:
    """Raises IllegalTransition: which incident, what came and why it may not, where each step is, the last events."""
    raise IllegalTransition(
        f"incident {incident.id} of {incident.opening.instance}: {told(event)} is illegal: {why}.\n"
        f"  state: {_state(incident)}\n"
        f"  steps: {', '.join(_step(one) for one in incident.steps) or 'none planned'}\n"
        f"  last events: {'; '.join(told(one) for one in incident.recent)}"
    )


def told(event: Event) -> str:
    """One event in a few words."""
    parts = [f"#{event.sequence}" if event.sequence else "", event.kind.value]
    if event.step is not None:
        parts.append(event.step.value)
    if event.action:
        parts.append(event.action)
    if event.ending is not None:
        parts.append(event.ending.value)
    if event.by:
        parts.append(f"by {event.by}")
    if event.note:
        parts.append(f"({event.note[:80]})")
    return " ".join(part for part in parts if part)


def _state(incident: Incident) -> str:
    parts = [f"progress {incident.progress.value}", f"round {incident.round}", f"{incident.runners} runners so far"]
    if incident.decision is not None:
        parts.append(f"decided {incident.decision.course.value} ({incident.decision.boundary.value})")
    if incident.aborted is not None:
        parts.append(f"aborted by {incident.aborted.by or 'somebody'}")
    if incident.deadline is not None:
        parts.append("total deadline passed")
    if incident.closed is not None:
        parts.append(f"closed {incident.closed.value}")
    return ", ".join(parts)


def _step(state: StepState) -> str:
    where = state.ending.value if state.ending is not None else ("running" if state.running else "waiting")
    unknown = [one.name for one in state.actions if one.open]
    return f"{state.step.value} {where}" + (f" (open: {', '.join(unknown)})" if unknown else "")
