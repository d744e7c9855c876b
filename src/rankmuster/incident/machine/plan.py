"""Which steps follow: at the opening, after a decision, and after a resume.

There is no step for one rank: TERMINATE and START are of the whole group, and no plan has a START without a TERMINATE
that it comes after.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rankmuster.incident.budget import Budget
from rankmuster.incident.machine.state import Incident, Planned
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Course, Decision, Event, EventKind, OpenedBy, Opening, Step

LIMITS_SECONDS = 6 * 3600.0
"""For which a rebuild that limits hold is waited for: the repair of a fabric takes hours, and the rebuild goes on by
itself then."""

Order = list[tuple[Step, tuple[Step, ...]]]

NEEDED = (Step.TERMINATE, Step.START, Step.VERIFY, Step.RECOVER, Step.RESTORE)
"""What comes after one of these needs it: where it did not end well, the rest is skipped, the incident has failed."""


def opening_plan(opening: Opening, budget: Budget, approve: Collection[Step] = ()) -> tuple[Planned, ...]:
    """What is done before anything is known: less traffic or none, and a look. Evidence waits for no gateway.

    Where an operator is waited for before traffic is touched, it is touched after the decision.
    """
    order: Order = [(Step.EVIDENCE, ())]
    if opening.by is OpenedBy.SLOW and opening.progress is not Progress.STOPPED:
        if Step.SHED not in approve:
            order = [(Step.SHED, ()), *order]
    elif Step.STOP_TRAFFIC not in approve:
        order = [(Step.STOP_TRAFFIC, ()), *order, (Step.DRAIN, (Step.STOP_TRAFFIC,))]
    order += [(Step.DIAGNOSE, (Step.EVIDENCE,)), (Step.DECIDE, (Step.DIAGNOSE,))]
    return _made(order, budget)


def plan_after(
    decision: Decision,
    incident: Incident,
    budget: Budget,
    approve: Collection[Step] = (),
    *,
    can_elsewhere: bool | None = None,
) -> tuple[Planned, ...]:
    """The steps that follow a decision. `approve`: steps before which an operator is waited for; one approval, before
    the first of them, holds for all that comes after it. None is asked for a second time.

    `can_elsewhere`: whether the group can be started on other nodes; None: as the plan before said.
    """
    elsewhere = incident.can_elsewhere if can_elsewhere is None else can_elsewhere
    by_operator = incident.approval is not None and not incident.approval.by_limits
    if decision.course is Course.HOLD:
        if by_operator:
            return ()
        # of one that is slow the time to recover is waited for too: then nobody has to approve anything
        slow = decision.progress is Progress.SLOW
        seconds = max(budget.of(Step.APPROVE), budget.of(Step.RECOVER) if slow else 0.0)
        return (Planned(Step.APPROVE, (), max(seconds, LIMITS_SECONDS) if decision.waits_for_limits else seconds),)
    wants: Collection[Step] = () if by_operator else approve
    if decision.course is Course.REBUILD:
        order = _rebuild(decision, incident, elsewhere)
        # A group that is slow and not stopped is rebuilt when people say so, at a time that suits them.
        if incident.opening.by is OpenedBy.SLOW and not incident.stands_still and not by_operator:
            wants = (*wants, order[0][0])
    elif decision.course is Course.RESTORE:
        order = [(Step.RESTORE, _kept(incident, Step.SHED, Step.STOP_TRAFFIC, Step.DRAIN))]
    elif decision.course is Course.SHED:
        order = [] if _begun(incident, Step.SHED) else [(Step.SHED, ())]
        order += [(Step.RECOVER, (Step.SHED,)), (Step.RESTORE, (Step.RECOVER,))]
    else:
        order, before = _stop_first(incident)
        order += [(Step.CUT, before), (Step.VERIFY, (Step.CUT,)), (Step.RESTORE, (Step.VERIFY,))]
    return _with_approval(_made(order, budget), budget, wants)


def _stop_first(incident: Incident) -> tuple[Order, tuple[Step, ...]]:
    """(what is left of stopping traffic and draining, what a cut comes after)."""
    order: Order = []
    if not _begun(incident, Step.STOP_TRAFFIC):
        order.append((Step.STOP_TRAFFIC, _kept(incident, Step.EVIDENCE)))
    if not _kept(incident, Step.DRAIN):
        order.append((Step.DRAIN, (Step.STOP_TRAFFIC,)))
    return order, (*_kept(incident, Step.EVIDENCE), Step.STOP_TRAFFIC, Step.DRAIN)


def _rebuild(decision: Decision, incident: Incident, elsewhere: bool) -> Order:
    order, before = _stop_first(incident)
    if decision.fence:
        order.append((Step.FENCE, (Step.STOP_TRAFFIC,)))
        before = (*before, Step.FENCE)
    order += [(Step.CUT, before), (Step.TERMINATE, (*before, Step.CUT))]
    moved = decision.elsewhere and elsewhere
    tested = bool(decision.retest)
    ended: Step = Step.TERMINATE
    if tested and not moved:
        order.append((Step.SHORT_RETEST, (Step.TERMINATE,)))
        ended = Step.SHORT_RETEST
    order += [
        (Step.START, tuple(dict.fromkeys((Step.TERMINATE, ended)))),
        (Step.VERIFY, (Step.START,)),
        (Step.RESTORE, (Step.VERIFY,)),
    ]
    last = Step.RESTORE
    if tested and moved:
        order.append((Step.RETEST, (Step.RESTORE,)))
        last = Step.RETEST
    if tested or decision.fence:
        order.append((Step.SETTLE, (last,)))
    return order


def plan_resumed(incident: Incident, budget: Budget, approve: Collection[Step] = ()) -> tuple[Planned, ...]:
    """What remains of one that was closed and is resumed.

    A group that was not touched is looked at anew: what was found then may be hours old. One that was ended is started;
    one that was started and never served is looked at, if it moves by now or others have started it, or else ended and
    started again.
    """
    if not incident.group_touched:
        return opening_plan(incident.opening, budget, approve)
    if (incident.moves or incident.started_by_others) and not incident.group_ended:
        order: Order = [(Step.VERIFY, ()), (Step.RESTORE, (Step.VERIFY,))]
    else:
        order = [
            (Step.STOP_TRAFFIC, ()),
            (Step.CUT, (Step.STOP_TRAFFIC,)),
            (Step.TERMINATE, (Step.CUT,)),
            (Step.START, (Step.TERMINATE,)),
            (Step.VERIFY, (Step.START,)),
            (Step.RESTORE, (Step.VERIFY,)),
        ]
    decision = incident.decision
    if decision is not None and (decision.retest or decision.fence):
        last = Step.RESTORE
        if decision.retest and decision.elsewhere and incident.can_elsewhere:
            order.append((Step.RETEST, (Step.RESTORE,)))
            last = Step.RETEST
        order.append((Step.SETTLE, (last,)))
    return _made(order, budget)


def next_plan(incident: Incident, budget: Budget, approve: Collection[Step] = ()) -> tuple[Planned, ...]:
    """For one that `needs_plan`: opened, or resumed."""
    if incident.round > 1:
        return plan_resumed(incident, budget, approve)
    return opening_plan(incident.opening, budget, approve)


def planned_event(
    plan: tuple[Planned, ...],
    *,
    at: float,
    by: str,
    budget: Budget,
    free_undecided: bool | None = None,
    can_elsewhere: bool | None = None,
    note: str = "",
) -> Event:
    """The PLANNED event. `free_undecided`: whether the GPUs of an instance that has stopped are freed at the total
    deadline where nothing was decided by then; `can_elsewhere`: of the group. None: as an earlier plan said."""
    data: dict[str, Any] = {
        "steps": [
            {
                "step": one.step.value,
                "after": [before.value for before in one.after],
                "seconds": one.seconds,
                "needed": one.needed,
            }
            for one in plan
        ],
        "total_seconds": budget.total,
        "seconds": {step.value: budget.of(step) for step in Step},
    }
    if free_undecided is not None:
        data["free_undecided"] = free_undecided
    if can_elsewhere is not None:
        data["can_elsewhere"] = can_elsewhere
    return Event(kind=EventKind.PLANNED, at=at, by=by, note=note, data=data)


def planned_from(data: Mapping[str, Any]) -> tuple[Planned, ...]:
    """The steps in a PLANNED event's data. Raises TypeError, ValueError, KeyError or AttributeError."""
    return tuple(
        Planned(
            Step(one["step"]),
            tuple(Step(before) for before in one.get("after", ())),
            float(one["seconds"]),
            bool(one.get("needed", False)),
        )
        for one in data["steps"]
    )


def _made(order: Order, budget: Budget) -> tuple[Planned, ...]:
    names = {step for step, _ in order}
    return tuple(
        Planned(
            step,
            after,
            budget.of(step),
            step in NEEDED or (step is Step.CUT and Step.TERMINATE not in names and Step.VERIFY in names),
        )
        for step, after in order
    )


def _with_approval(plan: tuple[Planned, ...], budget: Budget, approve: Collection[Step]) -> tuple[Planned, ...]:
    """APPROVE before the first step that wants it; all that stands after it in the plan comes after it."""
    wants = next(
        (number for number, one in enumerate(plan) if one.step in approve and one.step is not Step.APPROVE), None
    )
    if wants is None:
        return plan
    before, after = plan[:wants], plan[wants:]
    waits = Planned(Step.APPROVE, plan[wants].after, budget.of(Step.APPROVE), False)
    later = tuple(Planned(one.step, (*one.after, Step.APPROVE), one.seconds, one.needed) for one in after)
    return (*before, waits, *later)


def _kept(incident: Incident, *steps: Step) -> tuple[Step, ...]:
    """Those that a new plan leaves as they are: they run, or have ended."""
    found = [incident.step(step) for step in steps]
    return tuple(one.step for one in found if one is not None and not one.waiting)


def _begun(incident: Incident, step: Step) -> bool:
    state = incident.step(step)
    return state is not None and state.begun_at is not None
