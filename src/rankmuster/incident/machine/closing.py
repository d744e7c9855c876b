"""How an incident is closed, and what is left as it is: the note that an operator reads first."""

from __future__ import annotations

from rankmuster.incident.machine.due_kinds import Close
from rankmuster.incident.machine.state import Incident, StepState
from rankmuster.model.incident import Course, Ending, Outcome, Step


def close(incident: Incident) -> Close:
    """For one in which nothing runs and nothing waits any more."""
    outcome, why = _outcome(incident)
    return Close(outcome, ". ".join(part for part in (why, *_left(incident)) if part))


def _outcome(incident: Incident) -> tuple[Outcome, str]:
    if incident.aborted is not None:
        said = f": {incident.aborted.note}" if incident.aborted.note else ""
        return Outcome.ABORTED, f"aborted by {incident.aborted.by or 'somebody'}{said}"
    if incident.deadline is not None:
        return Outcome.GAVE_UP, f"the total deadline passed{_listed('; skipped', _skipped(incident))}"
    if incident.lapsed:
        approve = incident.step(Step.APPROVE)
        if approve is not None and approve.ending is Ending.FAILED:
            return Outcome.FAILED, approve.note
        if approve is not None and incident.moved_on:
            return Outcome.FAILED if incident.traffic_touched else Outcome.RESTORED, approve.note
        return Outcome.HELD, "nobody approved in time" + _held(incident)
    failed = next((one for one in incident.steps if _failed(incident, one)), None)
    if failed is not None:
        said = f": {failed.note}" if failed.note else ""
        ending = failed.ending.value if failed.ending is not None else ""
        return Outcome.FAILED, f"{failed.step.value} ended {ending}{said}{_listed('; skipped', _skipped(incident))}"
    if incident.course is Course.HOLD:
        return Outcome.HELD, "nothing is done without an operator" + _held(incident)
    if incident.undecided or (incident.decision is None and not incident.group_touched):
        return Outcome.FAILED, "nothing was decided"
    observed = [one.step.value for one in (*incident.earlier, *incident.steps) if one.ending is Ending.OBSERVED]
    terminate = incident.step(Step.TERMINATE)
    if observed and not incident.acted:
        return Outcome.OBSERVED, "nothing was done, since nothing is enabled; the steps say what would have been"
    if terminate is not None and terminate.ending is Ending.OBSERVED:
        return (
            Outcome.OBSERVED,
            f"the group was not rebuilt, since that is not enabled{_listed('; observed', observed)}",
        )
    if incident.course is Course.RESTORE and not incident.group_touched:
        return Outcome.RESTORED, "nothing had to be rebuilt"
    return Outcome.RECOVERED, "it serves again" if incident.course is not Course.SHED else "it has recovered"


def _failed(incident: Incident, state: StepState) -> bool:
    """A needed step that did not end well. One whose node could not be freed was made good by a start elsewhere."""
    if not state.planned.needed or not state.ended or state.well:
        return False
    start = incident.step(Step.START)
    return not (state.step is Step.TERMINATE and incident.stuck and start is not None and start.begun > state.over)


def _held(incident: Incident) -> str:
    held = None if incident.decision is None else incident.decision.held
    return f": {held}" if held else ""


def _left(incident: Incident) -> tuple[str, ...]:
    """What is not as it was."""
    found: list[str] = []
    if incident.traffic_touched:
        found.append("its weight at the gateway stays lowered" if incident.only_shed else "traffic stays stopped")
    if incident.group_ended:
        found.append("the group is ended and its GPUs are free")
    elif incident.stuck:
        on = ", ".join(incident.stuck_nodes) or "a node"
        found.append(f"a process on {on} could not be killed, or its GPU memory was not freed: only its owner can help")
    elif incident.started_unverified:
        found.append("what was started runs, and is not known to serve")
    elif incident.group_touched and not incident.last(Step.START, acted=True):
        found.append("it is not known whether the old group is gone")
    fenced = [action.name for one in incident.ran(Step.FENCE) for action in one.actions if action.ending is Ending.DONE]
    if fenced and not any(one.ending is Ending.DONE for one in incident.ran(Step.SETTLE)):
        found.append(f"fenced nodes stay fenced: {', '.join(dict.fromkeys(incident.to_fence))}")
    return tuple(found)


def _skipped(incident: Incident) -> list[str]:
    return [one.step.value for one in incident.steps if one.ending is Ending.SKIPPED and not _moot(one)]


def _moot(state: StepState) -> bool:
    """A drain that could not do anything was not left out."""
    return state.step is Step.DRAIN


def _listed(word: str, names: list[str]) -> str:
    return f"{word}: {', '.join(names)}" if names else ""
