"""One diagnosis: evidence in, verdict and aligned job out. The same bundle gives the same verdict, any day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose import progress
from rankmuster.diagnose.conclude import conclude
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import (
    alarms,
    call_log,
    cuda_errors,
    culprit_stacks,
    devices,
    exits,
    fingerprints,
    hardware,
    hosts,
    init,
    inspector,
    late_arrival,
    mismatch,
    network,
    peer_access,
    ras_counts,
    ras_missing,
    timeout_history,
    uneven_load,
    waiting,
    wrong_path,
)
from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.thresholds import DEFAULTS, Thresholds
from rankmuster.diagnose.weigh import weigh
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict

DETECTORS: tuple[Callable[[Context], list[Finding]], ...] = (
    devices.detect,
    cuda_errors.detect,
    exits.detect,
    hosts.detect,
    init.detect,
    mismatch.detect,
    call_log.detect,
    fingerprints.detect,
    waiting.detect,
    ras_missing.detect,
    ras_counts.detect,
    hardware.detect,
    network.detect,
    peer_access.detect,
    late_arrival.detect,
    inspector.detect,
    uneven_load.detect,
    wrong_path.detect,
    alarms.detect,
)
"""All detectors; their order is that of the findings in a report, not of their weight."""


class MixedInstances(ValueError):
    """The evidence is of more than one instance; a verdict over both would be of neither."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Verdict
    job: Job


def diagnose(evidence: Evidence, limits: Thresholds = DEFAULTS) -> Diagnosis:
    """The verdict on `evidence`.

    Raises MixedInstances where it holds two instances, naming both.
    """
    _one_instance(evidence)
    context = contexts.build(evidence, limits)
    findings = [finding for detector in DETECTORS for finding in detector(context)]
    view = progress.assess(context, findings)
    outcome = weigh(context, findings, view)
    named = (*outcome.accusation.culprits, *outcome.accusation.suspects) if outcome.accusation is not None else ()
    findings += culprit_stacks.explain(context, named)
    if outcome.accusation is not None and not outcome.accusation.stop:
        findings += timeout_history.explain(context)
    return Diagnosis(conclude(context, findings, view, outcome), context.job)


def _one_instance(evidence: Evidence) -> None:
    """Two descriptions of one incarnation (two looks) share their processes; everything else is mixed."""
    seen: dict[tuple[object, ...], InstanceFacts] = {}
    for facts in evidence.of(InstanceFacts):
        processes = frozenset((process.rank, process.host, process.pid) for process in facts.processes)
        if facts.instance or processes:
            seen.setdefault((facts.instance, facts.incarnation, processes), facts)
    if len(seen) < 2:
        return
    names = {facts.instance for facts in seen.values()}
    what = f"{len(names)} instances" if len(names) > 1 else f"{len(seen)} incarnations of one instance"
    text = " and ".join(_described(facts) for facts in sorted(seen.values(), key=lambda facts: facts.source))
    raise MixedInstances(f"evidence of {what} is mixed: {text}; diagnose each folder by itself")


def _described(facts: InstanceFacts) -> str:
    pids = [str(process.pid) for process in facts.processes if process.pid is not None]
    inside = [text for text in (facts.incarnation, f"pids {', '.join(pids[:4])}" if pids else None) if text]
    details = f" ({'; '.join(inside)})" if inside else ""
    return f"{facts.instance or 'an unnamed one'}{details} in {facts.source}"
