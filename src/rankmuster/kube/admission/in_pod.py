"""What was measured in a pod, as of its node: a pod has a host name of its own, and the node is admitted. Pure."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_record import ALONE, FINGERPRINT, RECORD
from rankmuster.admission.plan import Outcome
from rankmuster.model.admission import AdmissionRecord
from rankmuster.report.admission_json import render, seal
from rankmuster.report.fingerprint_yaml import as_json


def alone_payload(outcome: Outcome, node: str, pod: str) -> tuple[Payload, AdmissionRecord]:
    """The payload, and the record in it, which names the node and is sealed anew."""
    record = replace(outcome.record, nodes=(node,), notes=(*outcome.record.notes, f"measured in the pod {pod}"))
    sealed = seal(record)
    fingerprint = replace(outcome.fingerprint, host=node)
    payload = Payload(
        kind=ALONE,
        node=node,
        decision=sealed.decision.value,
        reason=sealed.reasons[0] if sealed.reasons else "",
        parts={RECORD: render(sealed).encode(), FINGERPRINT: as_json(fingerprint).encode()},
    )
    return payload, sealed
