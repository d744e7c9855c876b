"""One diagnosis: evidence in, verdict and aligned job out. The same bundle gives the same verdict, any day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose import progress, two_sets
from rankmuster.diagnose.conclude import conclude
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import (
    alarms,
    call_log,
    cuda_errors,
    culprit_stacks,
    devices,
    earlier_events,
    exits,
    fingerprints,
    gloo_sizes,
    hardware,
    hosts,
    init,
    inspector,
    late_arrival,
    launcher_end,
    mismatch,
    named_interface,
    network,
    peer_access,
    port_counters,
    process_states,
    ras_asking,
    ras_counts,
    ras_missing,
    timeout_history,
    uneven_load,
    waiting,
    wrong_path,
)
from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.thresholds import DEFAULTS, Thresholds
from rankmuster.diagnose.weigh import Outcome, weigh
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.fault import Progress
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict

DETECTORS: tuple[Callable[[Context], list[Finding]], ...] = (
    devices.detect,
    cuda_errors.detect,
    exits.detect,
    launcher_end.detect,
    process_states.detect,
    hosts.detect,
    init.detect,
    mismatch.detect,
    gloo_sizes.detect,
    call_log.detect,
    fingerprints.detect,
    waiting.detect,
    ras_missing.detect,
    ras_counts.detect,
    ras_asking.detect,
    hardware.detect,
    network.detect,
    peer_access.detect,
    late_arrival.detect,
    inspector.detect,
    uneven_load.detect,
    wrong_path.detect,
    alarms.detect,
    earlier_events.detect,
)
"""All detectors; their order is that of the findings in a report, not of their weight."""


class MixedInstances(ValueError):
    """The evidence is of more than one instance; a verdict over both would be of neither."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Verdict
    job: Job


@dataclass(frozen=True, slots=True)
class Examination:
    """A diagnosis with what it was made from, for reports that go further than the verdict."""

    diagnosis: Diagnosis
    context: Context
    findings: tuple[Finding, ...]


def diagnose(evidence: Evidence, limits: Thresholds = DEFAULTS) -> Diagnosis:
    """The verdict on `evidence`.

    Raises MixedInstances where it holds two instances, naming both.
    """
    return examine(evidence, limits).diagnosis


def examine(
    evidence: Evidence,
    limits: Thresholds = DEFAULTS,
    earlier: Evidence | None = None,
) -> Examination:
    """The verdict on `evidence` and the aligned job behind it. `earlier`: dumps of it that were taken before.

    Raises MixedInstances where `evidence` holds two instances, naming both.
    """
    _one_instance(evidence)
    context = contexts.build(evidence, limits, earlier)
    findings = [finding for detector in DETECTORS for finding in detector(context)]
    view = progress.assess(context, findings)
    outcome = weigh(context, findings, view)
    if interfaces := named_interface.explain(context, view, outcome):
        findings += interfaces
        outcome = weigh(context, findings, view)
    named = (*outcome.accusation.culprits, *outcome.accusation.suspects) if outcome.accusation is not None else ()
    findings += culprit_stacks.explain(context, named)
    findings += two_sets.explain(context)
    findings += ras_counts.standing_alike(context, view)
    findings += port_counters.explain(context, view)
    outcome = port_counters.with_links(context, outcome)
    if _speed_in_question(view, outcome) and not any(finding.detector == wrong_path.NAME for finding in findings):
        findings += wrong_path.narrowed(context)
    if outcome.accusation is not None and not outcome.accusation.stop:
        findings += timeout_history.explain(context)
    diagnosis = Diagnosis(conclude(context, findings, view, outcome), context.job)
    return Examination(diagnosis, context, tuple(findings))


def _speed_in_question(view: ProgressView, outcome: Outcome) -> bool:
    """Whether nothing stopped it, and it is slow or nobody can tell."""
    accusation = outcome.accusation
    if accusation is not None:
        return not accusation.stop
    return view.progress in (Progress.SLOW, Progress.UNKNOWN)


def _one_instance(evidence: Evidence) -> None:
    """Descriptions of one instance agree on every process they share: looks at it, or each node's own part of it."""
    seen: list[InstanceFacts] = []
    for facts in evidence.of(InstanceFacts):
        if (facts.instance or facts.processes) and not any(_agree(facts, other) and facts == other for other in seen):
            seen.append(facts)
    strangers = [facts for facts in seen[1:] if not _agree(facts, seen[0])]
    if not strangers:
        return
    names = {facts.instance for facts in (seen[0], *strangers)}
    what = f"{len(names)} instances" if len(names) > 1 else f"{1 + len(strangers)} incarnations of one instance"
    text = " and ".join(_described(facts) for facts in sorted((seen[0], *strangers), key=lambda facts: facts.source))
    raise MixedInstances(f"evidence of {what} is mixed: {text}; diagnose each folder by itself")


def _agree(one: InstanceFacts, other: InstanceFacts) -> bool:
    """Whether two descriptions can be of one incarnation: same facts where both say them, same process per rank."""
    told = (
        (one.instance, other.instance),
        (one.incarnation, other.incarnation),
        (one.world_size, other.world_size),
    )
    if any(mine is not None and theirs is not None and mine != theirs for mine, theirs in told):
        return False
    mine = {process.rank: (process.host, process.pid) for process in one.processes}
    return all(mine.get(p.rank, (p.host, p.pid)) == (p.host, p.pid) for p in other.processes)


def _described(facts: InstanceFacts) -> str:
    pids = [str(process.pid) for process in facts.processes if process.pid is not None]
    inside = [text for text in (facts.incarnation, f"pids {', '.join(pids[:4])}" if pids else None) if text]
    details = f" ({'; '.join(inside)})" if inside else ""
    return f"{facts.instance or 'an unnamed one'}{details} in {facts.source}"
