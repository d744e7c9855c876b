"""What an incident cost: how long nobody was served, which requests were hit, what the evidence took."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import Confidence
from rankmuster.model.incident import Ending, OpenedBy, Outcome, Step
from rankmuster.report.incident_account import Account, number, strings

DIGESTS = ("digest", "sha256", "manifest_sha256")
"""What an answer's data call the digest of a bundle."""


TOLD_APART = 1.0
"""Seconds. A `since` as late as the detection is when the watch's state changed: the fault came before it, and when is
not known."""


@dataclass(frozen=True, slots=True)
class Impact:
    """Times in unix seconds, lengths in seconds; None where it did not come to that, or is not known.

    `requests`: that a gateway said it hit. `served_at`: traffic is back. `terminated_at`: the GPUs are free.
    """

    fault_at: float | None
    detected_at: float
    served_at: float | None
    terminated_at: float | None
    drain_seconds: float | None
    evidence_seconds: float | None
    requests: int | None

    @property
    def counted_from(self) -> float:
        """The fault; its detection where that is all that is known."""
        return self.detected_at if self.fault_at is None else self.fault_at

    @property
    def after(self) -> str:
        """What lengths are counted from, in words."""
        return "after it was detected" if self.fault_at is None else "after the fault"

    @property
    def down_seconds(self) -> float | None:
        """Until traffic was back."""
        return None if self.served_at is None else max(0.0, self.served_at - self.counted_from)


@dataclass(frozen=True, slots=True)
class Saved:
    """A path of evidence. `digest`: empty where the journal has none."""

    path: str
    digest: str = ""


def impact(incident: Account) -> Impact:
    """Of what the journal says by now."""
    opening = incident.opening
    detected = opening.at if opening else incident.opened_at
    drain, evidence = incident.of(Step.DRAIN), incident.of(Step.EVIDENCE)
    return Impact(
        fault_at=_fault_at(incident, detected),
        detected_at=detected,
        served_at=_served_at(incident),
        terminated_at=_done_at(incident, Step.TERMINATE),
        drain_seconds=drain.took if drain else None,
        evidence_seconds=evidence.took if evidence else None,
        requests=requests_hit(incident),
    )


def _fault_at(incident: Account, detected: float) -> float | None:
    opening, verdict = incident.opening, incident.verdict
    since = opening.since if opening else None
    ended = opening is not None and opening.by is OpenedBy.ENDED
    if since is not None and (ended or since <= detected - TOLD_APART):
        return min(since, detected)
    seen = verdict.window.fault_at if verdict and verdict.confidence is not Confidence.POSSIBLE else None
    return seen if seen is not None and seen <= detected else None


def requests_hit(incident: Account) -> int | None:
    """Requests that were ended by us, as the gateways count them; None where none of them says."""
    told = [number(did.data, "requests") for _, did in incident.acted if did.ending in (Ending.DONE, Ending.PARTIAL)]
    counts = [int(count) for count in told if count is not None and 0 <= count < 1e12]
    return sum(counts) if counts else None


def saved(incident: Account) -> tuple[Saved, ...]:
    """Where the evidence and the verdict lie, each once; records of re-tests stand with their nodes."""
    found: dict[str, str] = {}
    if incident.opening and incident.opening.bundle:
        found[incident.opening.bundle] = ""
    for stage in incident.stages:
        for data in (*(did.data for did in stage.actions), stage.data):
            digest = next((str(data[key]) for key in DIGESTS if isinstance(data.get(key), str)), "")
            if digest and ":" not in digest:
                digest = f"sha256:{digest}"  # of the bundle's manifest, which has those of its files
            for key in ("bundle", "verdict"):
                for path in strings(data.get(key)):
                    found[path] = found.get(path) or (digest if key == "bundle" else "")
    return tuple(Saved(path, digest) for path, digest in found.items())


def bundle_of(incident: Account) -> str | None:
    """The path of the bundle that the evidence step saved, newest first, or that it was opened with."""
    found = _texts(incident, Step.EVIDENCE, "bundle")
    return found[-1] if found else incident.opening.bundle if incident.opening else None


def verdict_file(incident: Account) -> str | None:
    """The path of the verdict that was reached last."""
    found = _texts(incident, Step.DIAGNOSE, "verdict")
    return found[-1] if found else None


def _texts(incident: Account, step: Step, key: str) -> list[str]:
    stages = [stage for stage in incident.stages if stage.step is step]
    return [
        data[key]
        for stage in stages
        for data in (*(did.data for did in stage.actions), stage.data)
        if isinstance(data.get(key), str) and data[key]
    ]


def _done_at(incident: Account, step: Step) -> float | None:
    """When a step was done in truth: what was only observed is not."""
    ends = [
        stage.ended_at
        for stage in incident.stages
        if stage.step is step
        and stage.ending in (Ending.DONE, Ending.PARTIAL)
        and not (stage.actions and all(did.ending is Ending.OBSERVED for did in stage.actions))
    ]
    return ends[-1] if ends else None


def _served_at(incident: Account) -> float | None:
    if incident.outcome not in (None, Outcome.RECOVERED, Outcome.RESTORED):
        return None
    return _done_at(incident, Step.RESTORE)
