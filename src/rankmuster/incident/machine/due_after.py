"""What is due once the ordinary order is over: after an abort, an approval that nobody gave, or the total deadline."""

from __future__ import annotations

from rankmuster.incident.budget import FREE_GPUS
from rankmuster.incident.machine.closing import close
from rankmuster.incident.machine.due_kinds import Abandon, Begin, Due, Finish, Skip
from rankmuster.incident.machine.state import PEOPLE, Incident, StepState
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Course, Ending, Step


def after_abort(incident: Incident, now: float) -> tuple[Due, ...]:
    """Nothing new begins, what runs ends. Traffic comes back to a group that was not touched and may move."""
    by = "" if incident.aborted is None else incident.aborted.by
    return _end_all(incident, now, f"aborted by {by or 'somebody'}")


def after_lapse(incident: Incident, now: float) -> tuple[Due, ...]:
    """Nobody has approved, or nobody has to any more: as after an abort."""
    return _end_all(incident, now, "it goes on by itself" if incident.moved_on else "nobody has approved it in time")


def _end_all(incident: Incident, now: float, why: str) -> tuple[Due, ...]:
    since = incident.aborted.sequence if incident.aborted is not None else _lapsed(incident)
    gives_back = incident.traffic_touched and not incident.group_touched and _may_have_traffic(incident)
    tried = incident.last(Step.RESTORE) > since
    ends: list[Due] = []
    for one in incident.running:
        if one.step is Step.RESTORE and gives_back:
            ends += _out_of_time(one, now)
        elif one.step in PEOPLE:
            ends.append(Finish(one.step, Ending.SKIPPED, why))
        else:
            ends.append(Abandon(one.step, why, Ending.SKIPPED))
    ends += [Skip(one.step, why) for one in incident.waiting if one.step is not Step.RESTORE or not gives_back]
    if ends or incident.running:
        return tuple(ends)
    if gives_back and not tried:
        return (Begin(Step.RESTORE, now + incident.of(Step.RESTORE)),)
    return (close(incident),)


def _may_have_traffic(incident: Incident) -> bool:
    """Not one that was known to have stopped, and of which nothing is known since. What is slow keeps its lowered
    weight until it recovers, unless an operator says otherwise."""
    if incident.stands_still or incident.last_known is Progress.STOPPED:
        return False
    still_slow = incident.progress is Progress.SLOW and incident.only_shed
    return incident.aborted is not None or not still_slow


def _lapsed(incident: Incident) -> int:
    ends = [incident.step(step) for step in (Step.APPROVE, Step.DECIDE)]
    return max((one.over for one in ends if one is not None and one.ended), default=0)


def after_deadline(incident: Incident, now: float) -> tuple[Due, ...]:
    """Freeing the GPUs comes first: CUT and TERMINATE, within their own seconds. All else ends, and is skipped."""
    why = "the total deadline has passed"
    since = incident.deadline.sequence if incident.deadline is not None else 0
    frees = frees_gpus(incident)
    ends: list[Due] = []
    for one in incident.running:
        if one.begun > since or (frees and one.step in FREE_GPUS):
            ends += _out_of_time(one, now)
        elif one.step in PEOPLE:
            ends.append(Finish(one.step, Ending.SKIPPED, why))
        else:
            ends.append(Abandon(one.step, why, Ending.SKIPPED))
    ends += [Skip(one.step, why) for one in incident.waiting if not (frees and one.step in FREE_GPUS)]
    if ends or incident.running:
        return tuple(ends)
    if frees:
        cut = incident.step(Step.CUT)
        if not incident.started_unverified and (cut is None or cut.waiting):
            return (Begin(Step.CUT, now + incident.of(Step.CUT)),)
        return (Begin(Step.TERMINATE, now + incident.of(Step.TERMINATE)),)
    if incident.stuck and incident.fenced_after_stuck is None:
        return (Begin(Step.FENCE, now + incident.of(Step.FENCE)),)
    return (close(incident),)


def frees_gpus(incident: Incident) -> bool:
    """Whether the group is still to be ended: that was decided, or nothing was and it may be done then too; nobody's
    approval is missing; and it was not tried since the last start."""
    terminate = incident.step(Step.TERMINATE)
    if incident.started_unverified:
        tried = terminate is not None and terminate.begun > incident.last(Step.START, acted=True)
        return terminate is None or not tried or terminate.running
    if terminate is not None and terminate.begun_at is not None:
        return terminate.running
    approve = incident.step(Step.APPROVE)
    if incident.group_ended or (approve is not None and not approve.well):
        return False
    if incident.decision is not None:
        return incident.course is Course.REBUILD and terminate is not None
    return incident.stands_still and incident.free_undecided and not incident.group_touched


def _out_of_time(state: StepState, now: float) -> tuple[Due, ...]:
    if state.deadline_at is None or now < state.deadline_at:
        return ()
    return (Abandon(state.step, "its own seconds are over"),)
