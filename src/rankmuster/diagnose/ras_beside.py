"""What RAS says of ranks that another plane accuses: who still answers it is not unresponsive, who fell silent is."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation, Finding
from rankmuster.diagnose.ras_view import absences
from rankmuster.model.fault import Confidence, FaultClass, Subkind
from rankmuster.model.plane import Plane

FEWEST_UNANSWERED = 2
"""Polls without an answer from which RAS counts as silent; one may be a slow leg (each waits up to 10 s)."""


def with_ras(context: Context, finding: Finding, admitted: list[Finding]) -> Finding:
    """A rank without a dump that RAS still hears is not unresponsive: with lower counts it did not enter."""
    accusation = finding.accusation
    if accusation is not None and finding.plane is Plane.HARDWARE and accusation.subkind is Subkind.MISSING_ENTER:
        return _with_ras_silence(context, finding, accusation)
    if accusation is None or accusation.subkind is not Subkind.UNRESPONSIVE or finding.plane is not Plane.FLIGHT:
        return finding
    looks = absences(context)
    named = set(accusation.culprits or accusation.suspects)
    if not looks or not named <= looks[-1].answered:
        return finding
    behind = {
        rank
        for other in admitted
        if other.plane is Plane.RAS and other.accusation and other.accusation.subkind is Subkind.MISSING_ENTER
        for rank in other.accusation.culprits
    }
    if named <= behind:
        changed = replace(accusation, fault=FaultClass.COLLECTIVE_DESYNC, subkind=Subkind.MISSING_ENTER)
        return replace(finding, accusation=changed)
    changed = replace(
        accusation, culprits=(), suspects=tuple(sorted(named)), victims=(), confidence=Confidence.POSSIBLE
    )
    return replace(finding, accusation=changed)


def _with_ras_silence(context: Context, finding: Finding, accusation: Accusation) -> Finding:
    """An idle GPU beside RAS that answered before and never since is a process that does not run.

    A stopped graph or a host that stands elsewhere leaves RAS at RUNNING/OK; a frozen process makes RAS of the whole
    job wait for it, whichever rank was asked (capture rank-frozen).
    """
    at = accusation.at
    timed = [(time, poll.answered) for poll in context.polls if (time := context.time(poll.time)) is not None]
    if at is None or not any(answered for time, answered in timed if time <= at):
        return finding
    since = [answered for time, answered in timed if time > at]
    if len(since) < FEWEST_UNANSWERED or any(since):
        return finding
    changed = replace(
        accusation,
        fault=FaultClass.PROCESS_OR_DEVICE_LOST,
        subkind=Subkind.UNRESPONSIVE,
        why={
            rank: f"{text}, and RAS did not answer once in {len(since)} polls since: its process does not run"
            for rank, text in accusation.why.items()
        },
    )
    return replace(finding, accusation=changed)
