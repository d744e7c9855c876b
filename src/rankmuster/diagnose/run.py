"""One diagnosis: evidence in, verdict and aligned job out. The same bundle gives the same verdict, any day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose import progress
from rankmuster.diagnose.conclude import conclude
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import (
    call_log,
    devices,
    exits,
    hardware,
    init,
    late_arrival,
    mismatch,
    network,
    ras_counts,
    ras_missing,
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
    exits.detect,
    init.detect,
    mismatch.detect,
    call_log.detect,
    waiting.detect,
    ras_missing.detect,
    ras_counts.detect,
    hardware.detect,
    network.detect,
    late_arrival.detect,
    uneven_load.detect,
    wrong_path.detect,
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
    return Diagnosis(conclude(context, findings, view, weigh(context, findings, view)), context.job)


def _one_instance(evidence: Evidence) -> None:
    named = {
        (facts.instance, facts.incarnation): facts.source for facts in evidence.of(InstanceFacts) if facts.instance
    }
    if len(named) > 1:
        text = " and ".join(
            f"{instance}" + (f" ({incarnation})" if incarnation else "") + f" in {source}"
            for (instance, incarnation), source in sorted(named.items(), key=lambda item: item[1])
        )
        raise MixedInstances(f"evidence of {len(named)} instances is mixed: {text}; diagnose each folder by itself")
