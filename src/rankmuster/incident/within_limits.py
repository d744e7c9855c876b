"""What limits leave of a decision: asked and noted in the journal's own transactions.

A rebuild that is not allowed is held, and goes on by itself once it is. A fence that is not allowed is left out, and
the group is rebuilt without it.
"""

from __future__ import annotations

from dataclasses import replace

from rankmuster.incident.journal import Journal
from rankmuster.incident.judge_limits import BreakerState, allow_anyway, breaker_view, horizon, judge
from rankmuster.incident.limits import Limits
from rankmuster.incident.machine.state import Incident
from rankmuster.model.incident import Course, Decision, FleetView, Lease, Permit, Step, UseKind

BY_ITSELF = "the limits"
"""Who closes a breaker that has proven to be needless."""


def within_limits(
    journal: Journal,
    incident: str,
    lease: Lease,
    decision: Decision,
    instance: str,
    limits: Limits,
    now: float,
    *,
    approved: bool = False,
) -> Decision:
    """The decision that limits allow. `approved`: by an operator, whom limits only count for. Raises what the journal
    raises."""
    if decision.course is not Course.REBUILD:
        return decision
    close_if_proven(journal, limits, now)
    rebuild = _ask(journal, incident, lease, (UseKind.REBUILD, instance), limits, now, approved=approved)
    if not rebuild.allowed:
        return replace(
            decision,
            course=Course.HOLD,
            held=rebuild.why,
            waits_for_limits=True,
            why=(*decision.why, f"limits: {rebuild.why}"),
        )
    fenced, why = [], list(decision.why)
    for node in decision.fence:
        permit = _ask(journal, incident, lease, (UseKind.FENCE, node), limits, now, approved=approved)
        if permit.allowed:
            fenced.append(node)
        else:
            why.append(f"{node} is not fenced: {permit.why}")
    return replace(decision, fence=tuple(fenced), why=tuple(why))


def count_resumed(journal: Journal, incident: Incident, lease: Lease, limits: Limits, now: float) -> None:
    """For one that an operator has resumed and whose plan rebuilds without a second decision: that is counted, and not
    judged."""
    if incident.round > 1 and any(one.step is Step.TERMINATE for one in incident.waiting):
        wanted = [(UseKind.REBUILD, incident.opening.instance)]
        journal.reserve(incident.id, lease, wanted, allow_anyway, horizon(limits), now)


def allowed_now(journal: Journal, incident: str, lease: Lease, instance: str, limits: Limits, now: float) -> Permit:
    """For a decision that waits for limits: whether its rebuild is allowed by now. If it is, that is noted, so the
    decision that is made again gets it: the runner writes APPROVED with data `by_limits` true, and DECIDE comes anew.
    """
    close_if_proven(journal, limits, now)
    return _ask(journal, incident, lease, (UseKind.REBUILD, instance), limits, now, approved=False)


def give_back_unused(journal: Journal, incident: Incident, now: float) -> tuple[str, ...]:
    """For an incident that closes: ends the fences that were allowed and never made (nobody approved them, the deadline
    came first), since they would count for ever. Gives their nodes."""
    asked = {one.subject for one in journal.uses(incident.id) if one.kind is UseKind.FENCE and one.ended_at is None}
    acted = any(one.acted for step in (Step.FENCE, Step.SETTLE) for one in incident.ran(step))
    if acted or not asked:
        return ()
    for node in sorted(asked):
        journal.end_use(incident.id, UseKind.FENCE, node, now)
    return tuple(sorted(asked))


def close_if_proven(journal: Journal, limits: Limits, now: float) -> bool:
    """Closes the breaker if a rebuild has served again since it was half-open; whether it did."""
    breaker = journal.breaker()
    if breaker is None or breaker.closed_at is not None:
        return False
    view = journal.fleet(horizon(limits), now)
    return breaker_view(view, limits, now).state is BreakerState.PROVEN and journal.close_breaker(BY_ITSELF, now)


def _ask(
    journal: Journal,
    incident: str,
    lease: Lease,
    wanted: tuple[UseKind, str],
    limits: Limits,
    now: float,
    *,
    approved: bool,
) -> Permit:
    def judged(view: FleetView) -> Permit:
        return allow_anyway(view) if approved else judge(view, [wanted], limits, now, incident)

    return journal.reserve(incident, lease, [wanted], judged, horizon(limits), now)
