"""From findings to one explanation: which accusation leads, who agrees, who contradicts, how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation, Finding
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.ras_view import absences
from rankmuster.model.fault import Confidence, FaultClass, Progress, Subkind
from rankmuster.model.plane import Plane

TIERS: dict[Subkind | None, int] = {
    None: 3,  # an init that a named warning stopped, for a reason that no sub-kind names
    Subkind.GPU_LOST: 0,
    Subkind.KILLED: 1,
    Subkind.EXITED: 2,
    Subkind.VERSION_MISMATCH: 3,
    Subkind.NO_INTERFACE: 3,
    Subkind.RESOURCE_LIMIT: 3,
    Subkind.FABRIC_NOT_READY: 3,
    Subkind.OP_MISMATCH: 4,
    Subkind.SIZE_MISMATCH: 4,
    Subkind.DTYPE_MISMATCH: 4,
    Subkind.ADDRESS_OR_GID: 5,
    Subkind.LINK_ERROR: 5,
    Subkind.PATH_LOST: 5,
    Subkind.UNRESPONSIVE: 6,
    Subkind.HOST_LOST: 6,
    Subkind.GPU_STALLED: 7,
    Subkind.MISSING_ENTER: 8,
    Subkind.MISSING_PEER: 8,
    Subkind.ORDER_CYCLE: 8,
    Subkind.RANK_ABSENT: 9,
    Subkind.BOOTSTRAP_UNREACHABLE: 9,
    Subkind.RENDEZVOUS_TIMEOUT: 9,
    Subkind.ALL_ENTERED_NONE_LEFT: 10,
    Subkind.PERSISTENT: 11,
    Subkind.TAIL: 11,
    Subkind.DRIFT: 12,
    Subkind.WRONG_PATH: 12,
}
"""What explains the rest: a lost device explains a dead process, that one a missing call, that one the waiting."""

LEAD_ONLY = 20
"""Added to the tier of what is only possible: it leads when nothing better is there."""

FEWEST_UNANSWERED = 2
"""Polls without an answer from which RAS counts as silent; one may be a slow leg (each waits up to 10 s)."""

SURVIVES_PROGRESS = {
    Progress.ADVANCING: frozenset({"gpu-errors", "process-exit"}),
    Progress.SLOW: frozenset({"gpu-errors", "process-exit"}),
    Progress.IDLE: frozenset({"gpu-errors", "process-exit", "ras-missing"}),
}
"""Detectors of stops whose word stands although work advances, or none is there to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`lead` None: no fault. `supporting`: findings that accuse the same. `set_aside`: contradicted by progress."""

    lead: Finding | None
    supporting: tuple[Finding, ...]
    set_aside: tuple[Finding, ...]
    confidence: Confidence | None
    contested: bool = False

    @property
    def accusation(self) -> Accusation | None:
        """The leading accusation."""
        return self.lead.accusation if self.lead is not None else None


def weigh(context: Context, findings: list[Finding], view: ProgressView) -> Outcome:
    """Picks the leading accusation and measures it against the others."""
    accusing = [finding for finding in findings if finding.accusation is not None]
    admitted: list[Finding] = []
    aside: list[Finding] = []
    for finding in accusing:
        (admitted if _admissible(finding, view) else aside).append(finding)
    admitted = [_with_ras(context, finding, admitted) for finding in admitted]
    if not admitted:
        return Outcome(None, (), tuple(aside), None)
    lead = min(admitted, key=_rank)
    accusation = lead.accusation
    assert accusation is not None
    others = [finding for finding in admitted if finding is not lead]
    supporting = [finding for finding in others if _agrees(accusation, finding.accusation)]
    contested = [finding for finding in others if _contradicts(accusation, finding.accusation)]
    if contested and not accusation.decisive and not supporting:
        return Outcome(_uncertain(lead, contested), (), tuple(aside), Confidence.POSSIBLE, contested=True)
    planes = {lead.plane, *(finding.plane for finding in supporting)}
    confidence = accusation.confidence
    if accusation.decisive or (len(planes) > 1 and confidence is not Confidence.POSSIBLE):
        confidence = Confidence.CONFIRMED
    return Outcome(lead, tuple(supporting), tuple(aside), confidence)


def _admissible(finding: Finding, view: ProgressView) -> bool:
    accusation = finding.accusation
    assert accusation is not None
    if not accusation.stop:
        return view.progress is not Progress.STOPPED
    if accusation.decisive and not view.fresh:
        return True
    if view.decisive and view.progress in SURVIVES_PROGRESS:
        # A lead alone does not outweigh positive evidence: an old kill in the kernel log, of a number long used again.
        lead_only = accusation.confidence is Confidence.POSSIBLE
        return finding.detector in SURVIVES_PROGRESS[view.progress] and not lead_only
    return True


def _rank(finding: Finding) -> tuple[int, int, float]:
    accusation = finding.accusation
    assert accusation is not None
    tier = TIERS.get(accusation.subkind, 15)
    if accusation.confidence is Confidence.POSSIBLE:
        tier += LEAD_ONLY
    if not accusation.stop and accusation.fault is FaultClass.COLLECTIVE_DESYNC:
        # All have left it: it did harm, but the others do not wait there.
        tier = max(tier, TIERS[Subkind.ALL_ENTERED_NONE_LEFT])
    order = (Confidence.CONFIRMED, Confidence.LIKELY, Confidence.POSSIBLE).index(accusation.confidence)
    unnamed = 0 if accusation.culprits or accusation.gpus or accusation.hosts else 1
    return (tier, order + unnamed, accusation.at if accusation.at is not None else float("inf"))


def _agrees(lead: Accusation, other: Accusation | None) -> bool:
    if other is None:
        return False
    if lead.culprits and other.culprits:
        return set(lead.culprits) == set(other.culprits)
    if lead.culprits and other.suspects:
        return set(lead.culprits) == set(other.suspects)
    if not lead.culprits and not other.culprits and lead.fault is other.fault:
        return not lead.hosts or not other.hosts or bool(set(lead.hosts) & set(other.hosts))
    return False


def _contradicts(lead: Accusation, other: Accusation | None) -> bool:
    """Same depth of explanation, other names: then nobody is separated from the victims."""
    if other is None or not lead.culprits or not other.culprits or not other.stop or not lead.stop:
        return False
    if other.confidence is Confidence.POSSIBLE or set(lead.culprits) & set(other.culprits):
        return False
    return abs(TIERS.get(lead.subkind, 15) - TIERS.get(other.subkind, 15)) <= 1


def _uncertain(lead: Finding, contested: list[Finding]) -> Finding:
    accusation = lead.accusation
    assert accusation is not None
    names = set(accusation.culprits)
    why = dict(accusation.why)
    for finding in contested:
        if finding.accusation is not None:
            names |= set(finding.accusation.culprits)
            why = {**finding.accusation.why, **why}
    open_accusation = replace(
        accusation, culprits=(), suspects=tuple(sorted(names)), why=why, confidence=Confidence.POSSIBLE
    )
    return replace(lead, accusation=open_accusation)


def _with_ras(context: Context, finding: Finding, admitted: list[Finding]) -> Finding:
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
