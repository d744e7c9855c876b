"""Whether limits allow a rebuild or a fence, and when the circuit breaker opens and closes. Pure.

A number and a share both hold: the smaller one counts, and never less than one (three for the breaker: two instances
often share a host). Where the size of the fleet is not known, only numbers count.

The breaker counts instances that are *newly* in trouble. One whose incident before was not solved (held, failed, given
up) is in the same trouble still, so it neither opens the breaker nor keeps it open. While it is open nothing is rebuilt
and nobody fenced. After a quiet time it lets one rebuild through at a time; once one of them has served again it is
closed. Quiet are `breaker_quiet_seconds` in which fewer instances got into trouble than open it: in a large fleet some
instance always does, and a breaker that waits for none at all stays open for hours (`simulate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rankmuster.incident.limits import Limits
from rankmuster.model.incident import Breaker, FleetView, IncidentHead, Outcome, Permit, Use, UseKind

LEAST_BREAKER = 3
"""Instances: the share of a small fleet does not open the breaker before so many. Two often share one host."""

SOLVED = (Outcome.RECOVERED, Outcome.RESTORED, Outcome.OBSERVED)

Wanted = Sequence[tuple[UseKind, str]]


class BreakerState(str, Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    PROVEN = "proven"  # half-open, and a rebuild has served again: it is to be closed


@dataclass(frozen=True, slots=True)
class BreakerView:
    """`until`: when it is half-open if nothing new comes, unix seconds; None where it is not open."""

    state: BreakerState
    why: str = ""
    until: float | None = None


def judge(view: FleetView, wanted: Wanted, limits: Limits, now: float, incident: str) -> Permit:
    """Whether this incident may have what it wants; all of it or nothing. What it has already is not asked for again.

    Every refusal says the numbers.
    """
    had = {(one.kind, one.subject) for one in view.uses if one.incident == incident and one.ended_at is None}
    new = [one for one in dict.fromkeys(wanted) if one not in had]
    if not new:
        return Permit(allowed=True, why="it was allowed already")
    breaker = breaker_view(view, limits, now)
    if breaker.state is BreakerState.OPEN:
        return Permit(allowed=False, why=breaker.why)
    others = [one for one in view.uses if one.ended_at is None and one.incident != incident]
    rebuilding = sorted(one.subject for one in others if one.kind is UseKind.REBUILD)
    if breaker.state is BreakerState.HALF_OPEN and rebuilding:
        return Permit(allowed=False, why=f"{breaker.why}; {rebuilding[0]} is rebuilt now, the next one comes after it")
    if breaker.state is BreakerState.CLOSED:
        opens = too_many(view, limits, now)
        if opens is not None:
            return Permit(allowed=False, why=f"the circuit breaker opens: {opens}", open_breaker=opens)
    why = _within_budgets(view, new, limits, now, rebuilding)
    return Permit(allowed=why is None, why=why or "within all limits")


def allow_anyway(_: FleetView) -> Permit:
    """For what an operator has approved: it is counted, and not judged."""
    return Permit(allowed=True, why="approved by an operator")


def horizon(limits: Limits) -> float:
    """Seconds that `judge` looks back."""
    return max(limits.instance_seconds, limits.node_seconds, limits.breaker_seconds, limits.breaker_quiet_seconds)


def breaker_view(view: FleetView, limits: Limits, now: float) -> BreakerView:
    """Where the breaker stands by what the journal knows and the time. PROVEN: somebody has to close it now."""
    breaker = view.breaker
    if breaker is None or breaker.closed_at is not None:
        return BreakerView(BreakerState.CLOSED)
    times = sorted(one.opened_at for one in _new_since(view, breaker.opened_at))
    most = breaker_at(limits) - 1
    quiet_from = max(breaker.opened_at, times[-most - 1] if len(times) > most else 0.0)
    half_open = quiet_from + limits.breaker_quiet_seconds
    told = f"the circuit breaker is open since {now - breaker.opened_at:.0f} s ({breaker.why})"
    if now < half_open:
        why = (
            f"{told}; it tries one rebuild once fewer than {most + 1} instances got into trouble within "
            f"{limits.breaker_quiet_seconds:g} s, in {half_open - now:.0f} s if no more do"
        )
        return BreakerView(BreakerState.OPEN, why, half_open)
    if _proven(view, half_open):
        return BreakerView(BreakerState.PROVEN, f"{told}; a rebuild since has served again")
    return BreakerView(BreakerState.HALF_OPEN, f"{told}; it is quiet again, so one rebuild at a time", half_open)


def too_many(view: FleetView, limits: Limits, now: float) -> str | None:
    """Why the breaker has to open now; None where it has not. What was before its last end does not count."""
    since = now - limits.breaker_seconds
    if view.breaker is not None and view.breaker.closed_at is not None:
        since = max(since, view.breaker.closed_at)
    instances = {one.instance for one in _new_since(view, since)}
    least = breaker_at(limits)
    if len(instances) < least:
        return None
    return (
        f"{len(instances)} instances got into trouble within {limits.breaker_seconds:g} s, which is as many as "
        f"{least}: they have one cause, and rebuilding each enlarges it"
    )


def breaker_at(limits: Limits) -> int:
    """So many instances in trouble open it."""
    if not limits.instances:
        return limits.breaker_instances
    share = max(LEAST_BREAKER, math.ceil(limits.breaker_share * limits.instances))
    return min(limits.breaker_instances, share)


def at_once(number: int, share: float, size: int) -> int:
    """So many at the same time: the smaller of both, never less than one."""
    return number if not size else min(number, max(1, math.floor(share * size)))


def _within_budgets(view: FleetView, new: Wanted, limits: Limits, now: float, rebuilding: Sequence[str]) -> str | None:
    """Why not; None where all of it is."""
    fenced = {one.subject for one in view.uses if one.kind is UseKind.FENCE and one.ended_at is None}
    for kind, subject in new:
        if kind is UseKind.REBUILD:
            most = at_once(limits.rebuilds_at_once, limits.rebuilds_share, limits.instances)
            if len(rebuilding) >= most:
                return f"{len(rebuilding)} instances are rebuilt now, and {most} may be at once"
            count = _uses(view.uses, kind, subject, now - limits.instance_seconds)
            if count >= limits.rebuilds_per_instance:
                return (
                    f"{subject} was rebuilt {count} times within {limits.instance_seconds:g} s, and "
                    f"{limits.rebuilds_per_instance} is the limit: one more does not help it"
                )
        elif subject not in fenced:
            most = at_once(limits.fenced_at_once, limits.fenced_share, limits.nodes)
            if len(fenced) >= most:
                return f"{len(fenced)} nodes are fenced now, and {most} may be at once; {subject} would be one more"
            count = _uses(view.uses, kind, subject, now - limits.node_seconds)
            if count >= limits.fences_per_node:
                return (
                    f"{subject} was fenced {count} times within {limits.node_seconds:g} s, and "
                    f"{limits.fences_per_node} is the limit: people have to look at it"
                )
            fenced.add(subject)
    return None


def _uses(uses: Sequence[Use], kind: UseKind, subject: str, since: float) -> int:
    return sum(one.kind is kind and one.subject == subject and one.at > since for one in uses)


def _new_since(view: FleetView, since: float) -> list[IncidentHead]:
    """Incidents opened after that time of instances that were well before, as far as the view reaches."""
    newest: dict[str, IncidentHead] = {}
    found = []
    for head in view.opened:
        before = newest.get(head.instance)
        newest[head.instance] = head
        if head.opened_at > since and (before is None or before.outcome in SOLVED):
            found.append(head)
    return found


def _proven(view: FleetView, since: float) -> bool:
    """Whether a rebuild that was begun after that time has served again."""
    begun = {one.incident for one in view.uses if one.kind is UseKind.REBUILD and one.at >= since}
    return any(one.id in begun and one.outcome is Outcome.RECOVERED for one in view.opened)


def told(breaker: Breaker | None, limits: Limits, view: FleetView, now: float) -> str:
    """One sentence for operators."""
    if breaker is None:
        return "the circuit breaker has never been open"
    found = breaker_view(view, limits, now)
    if found.state is not BreakerState.CLOSED:
        return found.why
    ago = now - (breaker.closed_at if breaker.closed_at is not None else now)
    by = breaker.closed_by or "somebody"
    return f"the circuit breaker is closed since {ago:.0f} s (by {by}); it had opened: {breaker.why}"
