"""What was known besides the verdict when an incident was decided, as far as its journal shows it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rankmuster.incident.decide import Facts
from rankmuster.incident.facts import rank_hosts
from rankmuster.incident.machine.fold import fold
from rankmuster.incident.past_suspects import suspected_before
from rankmuster.model.incident import Course, Decision, Event, EventKind

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.model.verdict import Verdict
    from rankmuster.report.incident_account import Account
    from rankmuster.store.journal import Journal

DRIFTS = "a whole class of nodes drifts ("
FENCED_BY_DRIFT = "nobody is fenced while a class of nodes drifts ("
NOTHING_LIVES = "no process of the group lives"
NOT_FENCED = re.compile(r"(\S+) is not fenced: ")
LIMITS = "limits: "
"""Words of `incident.decide` and `incident.within_limits`: the journal keeps their reasons, not what they were told."""


def facts_of(journal: Journal, found: Account, settings: IncidentConfig, verdict: Verdict | None) -> Facts:
    """As they were when the last decision was made. Raises HistoryError."""
    decision = found.decision
    decided = next((event for event in reversed(found.events) if event.kind is EventKind.DECIDED), None)
    before = _before(found.events, decided)
    state = fold(found.id, before) if before else None
    said = (*decision.why, decision.held or "") if decision is not None else ()
    instance = settings.instances.get(found.instance)
    approval = state.approval if state is not None else None
    at = decided.at if decided is not None else found.opened_at
    return Facts(
        nodes=instance.nodes if instance is not None else {},
        rank_hosts=_hosts(found, verdict, instance.nodes if instance is not None else {}),
        progress=decision.progress if decision is not None else state.progress if state is not None else None,
        elsewhere=decision.elsewhere or _elsewhere(found) if decision is not None else _elsewhere(found),
        group_ended=any(NOTHING_LIVES in line for line in said),
        suspected_before=suspected_before(journal, found.id, at, settings.again_seconds),
        systematic=_systematic(said),
        approved=state.approved_boundary if state is not None else None,
        approved_by=approval.by if approval is not None else "",
    )


def _before(events: tuple[Event, ...], decided: Event | None) -> tuple[Event, ...]:
    return events if decided is None else tuple(event for event in events if event.sequence < decided.sequence)


def _hosts(found: Account, verdict: Verdict | None, nodes: dict[str, str]) -> dict[int, str]:
    """A suspect without a host was on the opening's, where the decision named its node: the group had one host then."""
    known = rank_hosts(verdict)
    host = found.opening.host if found.opening is not None else ""
    if verdict is not None and found.decision is not None and nodes.get(host, host) in found.decision.suspects:
        return {**{one.rank: host for one in verdict.suspects if one.rank is not None}, **known}
    return known


def before_limits(decision: Decision) -> Decision:
    """As it was decided before limits left something of it out (`incident.within_limits`)."""
    left_out = [match[1] for line in decision.why if (match := NOT_FENCED.match(line))]
    why = tuple(line for line in decision.why if not NOT_FENCED.match(line) and not line.startswith(LIMITS))
    fence = tuple(node for node in decision.retest if node in decision.fence or node in left_out)
    whole = replace(decision, why=why, fence=fence if left_out else decision.fence)
    if not decision.waits_for_limits:
        return whole
    return replace(whole, course=Course.REBUILD, held=None, waits_for_limits=False)


def _elsewhere(found: Account) -> bool:
    plans = [event.data.get("can_elsewhere") for event in found.events if event.kind is EventKind.PLANNED]
    return any(one is True for one in plans)


def _systematic(said: tuple[str, ...]) -> str | None:
    for line in said:
        for words in (FENCED_BY_DRIFT, DRIFTS):
            if words in line:
                return line.split(words, 1)[1].partition(")")[0]
    return None
