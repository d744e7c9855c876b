"""A Job on one node: how it goes, and what follows from how it ended. Pure.

Nothing but a record that is believed is a result. What hangs, is evicted, never starts or says something else is a
failed attempt: the node stays out, the next attempt waits longer, and after the last one a person is waited for.
"""

from __future__ import annotations

from rankmuster.adapters.kube.job_look import Failing, JobLook, JobState
from rankmuster.kube.admission import say
from rankmuster.kube.admission.acts import Act, DeleteJob, LiftTaint, RecordResult, SetStatus
from rankmuster.kube.admission.seen import Admission, Look
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.crd.admission import AdmissionStatus, Phase
from rankmuster.model.admission import Decision

MARGIN = 120.0
"""Seconds that Kubernetes has to end a Job whose own limit has passed, before it is ended from here."""


def backoff(attempts: int, settings: AdmissionSettings) -> float:
    """Seconds after a failed attempt."""
    return float(min(settings.backoff_seconds * 2 ** max(attempts - 1, 0), settings.backoff_most_seconds))


def testing(admission: Admission, look: Look, now: float, settings: AdmissionSettings) -> tuple[Act, ...]:
    """A Job on the node alone is under way."""
    job = look.job
    if job is None or job.state is JobState.UNKNOWN:
        note = job.note if job is not None else "its Job was not looked at"
        return say.waits(admission, "Unseen", note, now)
    objection = no_result(job, now, settings.job.start_seconds, settings.job.seconds)
    if objection is not None:
        return failed(admission, job, *objection, now, settings)
    if job.state is not JobState.ENDED:
        return say.under_way(admission, job, now)
    if look.result is None:
        return say.waits(admission, "NotJudged", look.unjudged or "its result was not judged yet", now)
    result = look.result
    if result.decision is Decision.ERROR:
        why = f"nothing could be decided: {'; '.join(result.record.reasons[:3])}"
        made = failed(admission, job, Failing.UNDECIDED, why, now, settings, result.record.hash)
        return (RecordResult(result), *made)
    status = say.decided(admission, result, now)
    if settings.pairs != "off" and say.enters(result.decision, settings.provisional):
        return (RecordResult(result), SetStatus(status))
    return (RecordResult(result), *concluded(admission, status, result.decision, now, settings))


def concluded(
    admission: Admission, status: AdmissionStatus, decision: Decision, now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """The end of a round with this decision over all that was measured."""
    phase = {Decision.PASS: Phase.PASSED, Decision.FAIL: Phase.REFUSED}.get(decision, Phase.PROVISIONAL)
    enters = say.enters(decision, settings.provisional)
    lift = (LiftTaint(say.first(status)),) if enters else ()
    return (*lift, SetStatus(say.closed(admission, status, phase, now, enters=enters)))


def no_result(job: JobLook, now: float, start_seconds: float, work_seconds: float) -> tuple[Failing, str] | None:
    """Why this Job will come, or has come, to nothing; None while it may, and where it ended with something to read."""
    if job.state is JobState.ABSENT:
        return Failing.GONE, f"Job {job.name} is gone, and nothing was read of it: somebody has deleted it"
    if job.state is JobState.OTHERS:
        return Failing.GONE, f"a Job {job.name} is there that is none of ours; it is left alone ({job.note})"
    if job.state is JobState.WAITING and now - job.since > start_seconds:
        why = job.note or "nobody says why"
        return job.failing or Failing.STARTING, f"Job {job.name} did not start within {start_seconds:.0f} s: {why}"
    if job.state is JobState.RUNNING and now - job.since > start_seconds + work_seconds + MARGIN:
        return (
            Failing.HUNG,
            f"Job {job.name} did not end: it has run since {now - job.since:.0f} s; a hung check is none",
        )
    if job.state is JobState.ENDED and not job.believed:
        why = job.note or "it said nothing"
        return job.failing or Failing.FAILED, f"Job {job.name} ended without a result: {why}"
    return None


def failed(
    admission: Admission,
    job: JobLook | None,
    failing: Failing,
    why: str,
    now: float,
    settings: AdmissionSettings,
    record: str | None = None,
) -> tuple[Act, ...]:
    """The attempt is over. What has not ended is deleted; what has (`job` None) is left to be looked at."""
    status = admission.status
    left = settings.attempts - max(status.attempts, status.pair_attempts)
    return (*dropped(job, why), SetStatus(say.failed(admission, failing, why, now, left, record)))


def dropped(job: JobLook | None, why: str) -> tuple[DeleteJob, ...]:
    """A Job that has not ended is deleted."""
    if job is None or job.state not in (JobState.WAITING, JobState.RUNNING):
        return ()
    return (DeleteJob(job.name, why),)
