"""From findings to one explanation: which accusation leads, who agrees, who contradicts, how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation, Finding
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.ras_beside import with_ras
from rankmuster.model.fault import Confidence, FaultClass, Progress, Subkind

TIERS: dict[Subkind | None, int] = {
    None: 3,  # an init that a named warning stopped, for a reason that no sub-kind names
    Subkind.GPU_LOST: 0,
    Subkind.KILLED: 1,
    Subkind.EXITED: 2,
    Subkind.VERSION_MISMATCH: 3,
    Subkind.NO_INTERFACE: 3,
    Subkind.RESOURCE_LIMIT: 3,
    Subkind.MISCONFIGURED: 3,
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

TELLING = ("process-exit", "cuda-errors", "gpu-errors")
"""Detectors that know a cause, the most telling first: an exit code and an exception explain a missing dump and a GPU
that its process left, though both of these may be seen a moment earlier."""

NOT_STOPPED = "other planes show that the instance is not stopped"
NOT_SLOW = "the instance is stopped, and what made it slow is not the question"

LEAD_ONLY = 20
"""Added to the tier of what is only possible: it leads when nothing better is there."""

SURVIVES_PROGRESS = {
    Progress.ADVANCING: frozenset({"gpu-errors", "process-exit"}),
    Progress.SLOW: frozenset({"gpu-errors", "process-exit"}),
    Progress.IDLE: frozenset({"gpu-errors", "process-exit", "ras-missing", "process-states"}),
}
"""Detectors of stops whose word stands although work advances, or none is there to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`lead` None: no fault. `supporting`: findings that accuse the same.

    `set_aside`: findings that progress contradicts, each with the reason.
    """

    lead: Finding | None
    supporting: tuple[Finding, ...]
    set_aside: tuple[tuple[Finding, str], ...]
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
    aside: list[tuple[Finding, str]] = []
    for finding in accusing:
        if _admissible(finding, view):
            admitted.append(finding)
        elif finding.accusation is not None:
            aside.append((finding, NOT_STOPPED if finding.accusation.stop else NOT_SLOW))
    admitted = [with_ras(context, finding, admitted) for finding in admitted]
    if not admitted:
        return Outcome(None, (), tuple(aside), None)
    lead = _telling(min(admitted, key=_rank), admitted)
    accusation = lead.accusation
    assert accusation is not None
    others = [finding for finding in admitted if finding is not lead]
    supporting = [finding for finding in others if _agrees(context, accusation, finding.accusation)]
    contested = [finding for finding in others if _contradicts(accusation, finding.accusation)]
    if contested and not accusation.decisive and not supporting:
        return Outcome(_uncertain(lead, contested), (), tuple(aside), Confidence.POSSIBLE, contested=True)
    # A lead is no second witness.
    sure = [finding for finding in supporting if _confidence(finding) is not Confidence.POSSIBLE]
    planes = {lead.plane, *(finding.plane for finding in sure)}
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


def _confidence(finding: Finding) -> Confidence:
    return finding.accusation.confidence if finding.accusation is not None else Confidence.POSSIBLE


def _telling(first: Finding, admitted: list[Finding]) -> Finding:
    """Of findings that lead alike and name the same ranks, the one that says most of the cause."""
    lead = first.accusation
    assert lead is not None
    if not lead.culprits and not lead.suspects:
        return first
    alike = [
        finding
        for finding in admitted
        if (other := finding.accusation) is not None
        and finding.detector in TELLING
        and _rank(finding)[:2] == _rank(first)[:2]
        and other.fault is lead.fault
        and (set(other.culprits), set(other.suspects)) == (set(lead.culprits), set(lead.suspects))
    ]
    return min(alike, key=lambda finding: (TELLING.index(finding.detector), _rank(finding)), default=first)


def _ranks(context: Context, accusation: Accusation) -> set[int]:
    """All ranks an accusation without names is about: those of its hosts, else those that wait."""
    on_hosts = {rank for host in accusation.hosts for rank in context.roster.hosts.get(host, ())}
    return on_hosts or set(accusation.victims)


def _agrees(context: Context, lead: Accusation, other: Accusation | None) -> bool:
    """Whether both accuse the same: the same culprits, or one class about ranks, GPUs or hosts that overlap."""
    if other is None:
        return False
    if lead.culprits and other.culprits:
        return set(lead.culprits) == set(other.culprits)
    if lead.culprits and other.suspects:
        return set(lead.culprits) == set(other.suspects)
    if lead.culprits or other.culprits or lead.fault is not other.fault:
        return False
    for one, two in (
        (set(lead.suspects), set(other.suspects)),
        ({gpu.name for gpu in lead.gpus}, {gpu.name for gpu in other.gpus}),
        (set(lead.hosts), set(other.hosts)),
        (_ranks(context, lead), _ranks(context, other)),
    ):
        if one and two:
            return bool(one & two)
    return lead.subkind is other.subkind


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
