"""The verdict: the leading explanation in the words of the schema, with everything it rests on."""

from __future__ import annotations

from rankmuster.diagnose import ends
from rankmuster.diagnose import planes as plane_reports
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation, Finding, Gpu
from rankmuster.diagnose.phase import phase
from rankmuster.diagnose.progress import ProgressView, witnesses
from rankmuster.diagnose.recovery import recovery_for
from rankmuster.diagnose.summary import summary
from rankmuster.diagnose.weigh import Outcome
from rankmuster.diagnose.would_decide import would_decide
from rankmuster.model.fault import Confidence, FaultClass, Phase, Progress, Role, Scope, Subkind, SuspectKind
from rankmuster.model.job import Rank
from rankmuster.model.plane import Plane, PlaneReport, PlaneState
from rankmuster.model.problem import ProblemKind
from rankmuster.model.verdict import (
    FindingRecord,
    FirstDivergence,
    PlaneRecord,
    Suspect,
    Verdict,
    Window,
)

MAX_VICTIMS = 256
"""Victims listed one by one; of a larger instance the rest is in the roll call."""


def conclude(context: Context, findings: list[Finding], view: ProgressView, outcome: Outcome) -> Verdict:
    """The verdict for this evidence."""
    reports = plane_reports.report(context, view.progress)
    accusation = outcome.accusation
    fault, subkind, confidence, progress = _class_of(context, view, outcome, reports)
    everything = [*findings, *view.findings]
    start, end = context.window
    facts = context.facts
    suspects = _suspects(context, accusation) if accusation is not None else ()
    fault_at = _fault_at(context, outcome, view) if fault not in (FaultClass.HEALTHY,) else None
    return Verdict(
        instance=facts.instance if facts else None,
        deployment=facts.deployment if facts else None,
        incarnation=facts.incarnation if facts else None,
        window=Window(start=start, end=end, fault_at=fault_at),
        progress=progress,
        class_=fault,
        subclass=subkind,
        confidence=confidence,
        scope=(accusation.scope or Scope.INSTANCE) if accusation is not None else Scope.INSTANCE,
        phase=phase(context, accusation, progress),
        summary=summary(context, fault, subkind, outcome, view, progress),
        suspects=suspects,
        suspect_hosts=_hosts(context, accusation),
        first_divergence=_divergence(outcome),
        findings=_records(everything, outcome),
        planes=tuple(PlaneRecord(plane=row.plane, state=row.state, note=row.note) for row in reports),
        recovery=recovery_for(fault, subkind),
        would_decide=would_decide(everything, outcome, fault, reports),
        unread=tuple(p.source for p in context.evidence.problems if p.kind is ProblemKind.UNREAD),
        problems=tuple(
            f"{p.kind.value}: {p.source}: {p.message}"
            for p in context.evidence.problems
            if p.kind is not ProblemKind.UNREAD
        ),
    )


def _class_of(
    context: Context, view: ProgressView, outcome: Outcome, reports: tuple[PlaneReport, ...]
) -> tuple[FaultClass, Subkind | None, Confidence | None, Progress]:
    accusation = outcome.accusation
    progress = view.progress
    if accusation is not None:
        if accusation.phase is Phase.INIT and progress is not Progress.STOPPED:
            progress = Progress.STARTING
        elif accusation.stop and (progress is Progress.UNKNOWN or not view.fresh):
            progress = Progress.STOPPED
        elif accusation.fault is FaultClass.PERFORMANCE_DEGRADATION and progress is Progress.ADVANCING:
            progress = Progress.SLOW if accusation.subkind in (Subkind.PERSISTENT, Subkind.TAIL) else progress
        return accusation.fault, accusation.subkind, outcome.confidence, progress
    if progress is not Progress.STOPPED and ends.shut_down(context, ends.ends(context)):
        return FaultClass.HEALTHY, None, Confidence.LIKELY, Progress.DRAINING
    if progress is Progress.SLOW and view.decisive:
        return FaultClass.PERFORMANCE_DEGRADATION, Subkind.PERSISTENT, Confidence.POSSIBLE, progress
    if progress in (Progress.ADVANCING, Progress.IDLE) and view.decisive:
        confidence = Confidence.CONFIRMED if len(witnesses(context, progress)) > 1 else Confidence.LIKELY
        return FaultClass.HEALTHY, None, confidence, progress
    spoke = {row.plane for row in reports if row.state is PlaneState.SPOKE} - {Plane.PLATFORM, Plane.TOPOLOGY}
    blind = [row for row in reports if row.state is PlaneState.BLIND and row.plane is not Plane.ENGINE]
    if not spoke or (blind and progress is Progress.STOPPED and not spoke & {Plane.HARDWARE}):
        return FaultClass.BLIND, None, None, progress
    return FaultClass.INCONCLUSIVE, None, None, progress


def _fault_at(context: Context, outcome: Outcome, view: ProgressView) -> float | None:
    accusation = outcome.accusation
    if accusation is not None and accusation.at is not None:
        return accusation.at
    for finding in outcome.supporting:
        if finding.accusation is not None and finding.accusation.at is not None:
            return finding.accusation.at
    return view.since if view.since is not None else context.first_timeout


def _person(rank: Rank, role: Role, why: str) -> Suspect:
    return Suspect(
        kind=SuspectKind.RANK,
        rank=rank.rank,
        host=rank.host,
        pid=rank.pid,
        gpu=rank.gpu if rank.gpu is not None else rank.bus_id,
        pod=rank.pod,
        role=role,
        why=why,
    )


def _device(gpu: Gpu) -> Suspect:
    """A GPU that is at fault, or the process that lost its context on one that is not."""
    kind = SuspectKind.GPU if gpu.pid is None else SuspectKind.PROCESS
    role = Role.CULPRIT if gpu.broken or gpu.pid is not None else Role.SUSPECT
    return Suspect(kind=kind, host=gpu.host, pid=gpu.pid, gpu=gpu.name, role=role, why=gpu.why)


def _suspects(context: Context, accusation: Accusation) -> tuple[Suspect, ...]:
    found: list[Suspect] = []
    known = context.roster.ranks_by_number

    def rank(number: int) -> Rank:
        return known.get(number) or Rank(number)

    for number in accusation.culprits:
        found.append(_person(rank(number), Role.CULPRIT, accusation.why.get(number, "")))
    for number in accusation.suspects:
        found.append(_person(rank(number), Role.SUSPECT, accusation.why.get(number, "")))
    for gpu in accusation.gpus:
        found.append(_device(gpu))
    if not accusation.culprits and not accusation.suspects and not accusation.gpus:
        for host in accusation.hosts:
            found.append(
                Suspect(kind=SuspectKind.NODE, host=host, role=Role.SUSPECT, why="an end of the path in question")
            )
        for link in accusation.links:
            found.append(Suspect(kind=SuspectKind.LINK, link=link, role=Role.SUSPECT, why="the path in question"))
    named = {*accusation.culprits, *accusation.suspects}
    for number in [victim for victim in dict.fromkeys(accusation.victims) if victim not in named][:MAX_VICTIMS]:
        found.append(_person(rank(number), Role.VICTIM, "waits for the others"))
    return tuple(found)


def _hosts(context: Context, accusation: Accusation | None) -> tuple[str, ...]:
    if accusation is None:
        return ()
    if accusation.hosts:
        return accusation.hosts
    named = (*accusation.culprits, *accusation.suspects)
    return tuple(sorted({host for number in named if (host := context.job.rank(number).host) is not None}))


def _divergence(outcome: Outcome) -> FirstDivergence | None:
    accusation = outcome.accusation
    if accusation is None:
        return None
    if accusation.divergence is not None:
        return accusation.divergence
    return next(
        (
            finding.accusation.divergence
            for finding in outcome.supporting
            if finding.accusation is not None and finding.accusation.divergence is not None
        ),
        None,
    )


def _records(findings: list[Finding], outcome: Outcome) -> tuple[FindingRecord, ...]:
    leading = [outcome.lead, *outcome.supporting]
    detectors = {id(finding) for finding in leading if finding is not None}
    lead = outcome.lead
    records = []
    for finding in findings:
        led = id(finding) in detectors or (
            lead is not None and finding.detector == lead.detector and finding.statement == lead.statement
        )
        statement = finding.statement
        aside = next((reason for other, reason in outcome.set_aside if other is finding), None)
        if aside is not None:
            statement += f" (set aside: {aside})"
        records.append(
            FindingRecord(
                detector=finding.detector,
                statement=statement,
                evidence=finding.evidence,
                plane=finding.plane,
                led_to_verdict=led,
            )
        )
    return tuple(sorted(records, key=lambda record: not record.led_to_verdict))
