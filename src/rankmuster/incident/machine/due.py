"""What is to be done now, from an incident and the clock alone. The runner does it and writes it down; then asks again.

What was done as asked is not asked for again. `Begin` may be asked for several steps at once: they run beside each
other. `Abandon` and `Finish` are asked for until the step has ended.
"""

from __future__ import annotations

from rankmuster.incident.machine.closing import close
from rankmuster.incident.machine.due_after import after_abort, after_deadline, after_lapse
from rankmuster.incident.machine.due_kinds import Abandon, Begin, Close, Due, Finish, PassDeadline, Skip
from rankmuster.incident.machine.legal import blocked_by
from rankmuster.incident.machine.state import COMES_BACK, PEOPLE, Incident, StepState
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.incident import Course, Ending, OpenedBy, Step

__all__ = ["Abandon", "Begin", "Close", "Due", "Finish", "PassDeadline", "Skip", "due", "total_deadline_at", "wake_at"]


def due(incident: Incident, now: float) -> tuple[Due, ...]:
    """In the order in which they are to be done. Empty: nothing now; ask again at `wake_at`, or when something came."""
    if incident.closed is not None or incident.needs_plan:
        return ()
    if incident.aborted is not None:
        return after_abort(incident, now)
    if incident.deadline is not None:
        return after_deadline(incident, now)
    total = total_deadline_at(incident)
    if total is not None and now >= total:
        left = ", ".join(one.step.value for one in incident.steps if not one.ended)
        spent = incident.total_seconds or 0.0
        return (PassDeadline(f"the {spent:g} s of all steps together are over; not ended by then: {left}"),)
    if incident.lapsed:
        return after_lapse(incident, now)
    found = (*_over(incident, now), *_next(incident, now))
    if found or incident.running or incident.waiting:
        return found
    if incident.undecided:
        return after_lapse(incident, now)
    return (close(incident),)


def total_deadline_at(incident: Incident) -> float | None:
    """When the total deadline passes, in unix seconds; None where nothing is left that it is for, and while people are
    waited for.

    It is for what is done until traffic is back. A group that is seen to serve is not given up in its last seconds, and
    the re-test of idle nodes has its own deadline alone.
    """
    if incident.total_seconds is None or incident.deadline is not None or incident.closed is not None:
        return None
    if any(one.step in PEOPLE for one in incident.running):
        return None
    restore, verify = incident.step(Step.RESTORE), incident.step(Step.VERIFY)
    if restore is not None and not restore.waiting:
        return None
    if restore is not None and verify is not None and verify.ended and verify.well:
        return None
    if all(one.ended for one in incident.steps):
        return None
    return incident.begun_at + incident.total_seconds + incident.waited


def wake_at(incident: Incident, now: float) -> float | None:
    """When `due` may have more to say if nothing comes in; `now` where it has already. None: never by itself.

    A step that was told to end and does not yet is no reason to ask again at once.
    """
    if any(not isinstance(one, Abandon) for one in due(incident, now)):
        return now
    times = [one.deadline_at for one in incident.running if one.deadline_at is not None and one.deadline_at > now]
    total = total_deadline_at(incident)
    if total is not None and total > now:
        times.append(total)
    return min(times, default=None)


def _over(incident: Incident, now: float) -> tuple[Due, ...]:
    """Steps that run and have to end, by what was said since or by their own deadline."""
    found: list[Due] = []
    for one in incident.running:
        ends = _by_what_was_said(incident, one)
        if ends is not None:
            found.append(ends)
        elif one.deadline_at is not None and now >= one.deadline_at:
            why = f"its {one.deadline_at - (one.begun_at or now):g} s are over"
            if one.step is Step.APPROVE:
                why = f"nobody has approved; {why}"
            found.append(Abandon(one.step, why))
    return tuple(found)


def _by_what_was_said(incident: Incident, state: StepState) -> Due | None:
    step, progress = state.step, incident.progress.value
    if step is Step.DRAIN:
        if incident.stands_still:
            return Abandon(step, f"progress is {progress}: what has not ended cannot end", Ending.SKIPPED)
        if incident.course is Course.RESTORE and incident.step(Step.RESTORE) is not None:
            return Abandon(step, "traffic is given back: nothing has to be drained", Ending.SKIPPED)
    if step is Step.RETEST and incident.stopped_again:
        return Abandon(step, "the instance has stopped again: that is a new incident, and this one makes way")
    if step is Step.APPROVE and incident.approval is not None:
        by = incident.approval
        named = f" ({by.boundary.value})" if by.boundary is not None else ""
        return Finish(
            step, Ending.DONE, f"approved by {by.by or 'somebody'}{named}" + (f": {by.note}" if by.note else "")
        )
    if step is Step.APPROVE and goes_on_by_itself(incident):
        return Finish(step, Ending.SKIPPED, f"it goes on by itself, progress is {progress}: nothing is left to approve")
    if step is Step.RECOVER and incident.moves:
        return Finish(step, Ending.DONE, f"it has recovered: progress is {progress}")
    was_slow = incident.opening.by is OpenedBy.SLOW and (
        incident.decision is None or incident.decision.progress is not Progress.STOPPED
    )
    if step in PEOPLE and was_slow and incident.stands_still and not incident.group_touched:
        return Finish(step, Ending.FAILED, f"progress is {progress} by now: that is another runbook, a new incident")
    return None


def goes_on_by_itself(incident: Incident) -> bool:
    """Whether what an approval is waited for is no longer wanted: it moves, as was seen after the decision.

    Of a process or device that is gone nothing comes back by itself, but somebody may have started the group anew. A
    rebuild that was begun goes to its end.
    """
    decision = incident.decision
    if decision is None or decision.course is Course.RESTORE or incident.group_touched:
        return False
    gone = decision.class_ is FaultClass.PROCESS_OR_DEVICE_LOST and decision.subclass not in COMES_BACK
    anew = incident.seen_incarnation != incident.first_seen_incarnation
    return incident.moves and incident.progress_seen > incident.decided_at and (anew or not gone)


def _next(incident: Incident, now: float) -> tuple[Due, ...]:
    """Steps that wait and may begin, or never will."""
    fence = incident.fenced_after_stuck
    if incident.stuck and (fence is None or not fence.ended):
        # The node is kept out first: what is started next must not land there.
        return () if fence is not None else (Begin(Step.FENCE, now + incident.of(Step.FENCE)),)
    if incident.decides_again:
        return (Begin(Step.DECIDE, now + incident.of(Step.DECIDE)),)
    found: list[Due] = []
    for one in incident.waiting:
        blocked = blocked_by(incident, one)
        before = [incident.step(name) for name in one.planned.after]
        if blocked is not None:
            ending = blocked.ending.value if blocked.ending is not None else ""
            found.append(Skip(one.step, f"{blocked.step.value} ended {ending}, and this needs it"))
        elif one.step is Step.DRAIN and incident.stands_still:
            found.append(Skip(one.step, f"progress is {incident.progress.value}: nothing can drain"))
        elif any(state is not None and not state.ended for state in before):
            continue
        elif one.step is Step.SHORT_RETEST and incident.stuck:
            found.append(Skip(one.step, "a process of the old group is still there: it is started elsewhere"))
        else:
            found.append(Begin(one.step, now + one.planned.seconds))
    return tuple(found)
