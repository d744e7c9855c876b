"""The status of a NodeAdmission as it follows from a step. Pure; a status that says nothing new is not written."""

from __future__ import annotations

from typing import Any

from rankmuster.adapters.kube.fields import stamp
from rankmuster.adapters.kube.job_look import Failing, JobLook, JobState
from rankmuster.evidence.json_fields import unix_seconds
from rankmuster.kube.admission.acts import SetStatus
from rankmuster.kube.admission.result import Result
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.controller.conditions import Wanted
from rankmuster.kube.crd.admission import AdmissionStatus, Phase
from rankmuster.kube.crd.base import Condition
from rankmuster.model.admission import Decision
from rankmuster.report.inert import plain

MOST_REASONS = 16
MOST_REASON = 500

_ADMITTED = {
    Phase.PASSED: "Passed",
    Phase.PROVISIONAL: "Provisional",
    Phase.REFUSED: "Refused",
    Phase.ERROR: "NotTested",
}


def seconds(text: str | None, default: float) -> float:
    """Unix seconds of a time of the status."""
    found = unix_seconds(text)
    return default if found is None else found


def waits(admission: Admission, reason: str, message: str, now: float) -> tuple[SetStatus, ...]:
    """Nothing is done now; `reason` says what is waited for."""
    return _set(admission, _told(admission, admission.status, now, Wanted("Tested", None, reason, message)))


def tainted(admission: Admission, now: float, there: bool = True) -> tuple[SetStatus, ...]:
    """The node has our taint, as it should, or has it no more."""
    return _set(admission, _told(admission, admission.status, now, _taint(there)))


def untainted(admission: Admission, why: str, now: float) -> tuple[SetStatus, ...]:
    """It should be kept out, and serves on."""
    wanted = (Wanted("Tested", None, "ShareReached", why), Wanted("Tainted", False, "ShareReached", why))
    return _set(admission, _told(admission, admission.status, now, *wanted))


def under_way(admission: Admission, job: JobLook, now: float) -> tuple[SetStatus, ...]:
    """A Job has not ended."""
    if job.state is JobState.RUNNING:
        return waits(admission, "Running", f"Job {job.name} runs", now)
    return waits(admission, "Starting", f"Job {job.name} waits: {job.note or 'its pod does not run yet'}", now)


def fresh(admission: Admission, why: str, now: float) -> AdmissionStatus:
    """As if nothing had been tested yet, in the round that was asked for."""
    empty = AdmissionStatus(again=admission.again, conditions=admission.status.conditions)
    wanted = (Wanted("Tested", None, "Asked", why), Wanted("Admitted", False, "Asked", why))
    return _told(admission, empty, now, *wanted)


def begun(admission: Admission, job: str, now: float) -> AdmissionStatus:
    """A Job on the node alone was created."""
    status = admission.status
    made = status.model_copy(
        update={
            "phase": Phase.TESTING,
            "attempts": status.attempts + 1,
            "job": job,
            "pair_job": None,
            "with_node": None,
            "decision": None,
            "started_at": stamp(now),
            "ended_at": None,
            "reasons": (),
        }
    )
    wanted = (
        Wanted("Tested", None, "Starting", f"Job {job} was created"),
        Wanted("Admitted", False, "Testing", "it is tested"),
        _taint(True),
    )
    return _told(admission, made, now, *wanted)


def begun_pair(admission: Admission, job: str, good: str, now: float) -> AdmissionStatus:
    """A Job on the node and a good one was created."""
    status = admission.status
    made = status.model_copy(
        update={
            "pair_attempts": status.pair_attempts + 1,
            "pair_job": job,
            "with_node": good,
            "started_at": stamp(now),
        }
    )
    return _told(admission, made, now, Wanted("Tested", None, "Starting", f"Job {job} with {good} was created"))


def decided(admission: Admission, result: Result, now: float) -> AdmissionStatus:
    """What was measured on the node alone, before it is said what follows."""
    made = admission.status.model_copy(
        update={
            "decision": result.decision.value,
            "class_": result.class_hash,
            "record": result.record.hash,
            "reasons": reasons(result.record.reasons),
            "ended_at": stamp(now),
        }
    )
    words = f"alone {result.decision.value}: {first(made)}"
    return _told(admission, made, now, Wanted("Tested", None, "TestedAlone", words))


def closed(admission: Admission, status: AdmissionStatus, phase: Phase, now: float, *, enters: bool) -> AdmissionStatus:
    """The end of a round that came to a result. `enters`: the node may serve."""
    made = status.model_copy(update={"phase": phase, "ended_at": stamp(now), "pair_job": None})
    words = first(made)
    wanted = (
        Wanted("Tested", True, phase.value, words),
        Wanted("Admitted", enters, _ADMITTED.get(phase, phase.value), words),
        _taint(not enters),
    )
    return _told(admission, made, now, *wanted)


def failed(
    admission: Admission, failing: Failing, why: str, now: float, left: int, record: str | None
) -> AdmissionStatus:
    """An attempt came to no result. `left`: how many are made yet."""
    follows = (
        f"{left} more attempt(s) follow"
        if left > 0
        else "no further attempt is made: spec.again asks for one, spec.release lets the node in"
    )
    words = plain(f"{why}; {follows}", 900)
    made = admission.status.model_copy(
        update={
            "phase": Phase.ERROR,
            "ended_at": stamp(now),
            "reasons": reasons((why,)),
            "pair_job": None,
            "record": record or admission.status.record,
        }
    )
    wanted = (
        Wanted("Tested", False, failing.value, words),
        Wanted("Admitted", False, _ADMITTED[Phase.ERROR], words),
        _taint(True),
    )
    return _told(admission, made, now, *wanted)


def phase(
    admission: Admission,
    phase: Phase,
    reason: str,
    why: str,
    now: float,
    *,
    admitted: bool | None,
    kept_out: bool | None = None,
) -> tuple[SetStatus, ...]:
    """Any other end, with the same words in all conditions. `kept_out` None: nothing is said of the taint."""
    made = admission.status.model_copy(
        update={"phase": phase, "ended_at": stamp(now), "reasons": reasons((why,)), "pair_job": None}
    )
    wanted = [Wanted("Admitted", admitted, reason, why)]
    if kept_out is not None:
        wanted.append(_taint(kept_out))
    if made.decision is None:
        wanted.append(Wanted("Tested", None, reason, why))
    return _set(admission, _told(admission, made, now, *wanted))


def reasons(words: tuple[str, ...]) -> tuple[str, ...]:
    """As a status holds them."""
    return tuple(plain(one, MOST_REASON) for one in words[:MOST_REASONS])


def first(status: AdmissionStatus) -> str:
    """The reason to read first."""
    return status.reasons[0] if status.reasons else "nothing was said"


def enters(decision: Decision, provisional: str) -> bool:
    """Whether a node with this decision may serve. `provisional`: as in the settings."""
    return decision is Decision.PASS or (decision is Decision.PROVISIONAL and provisional == "admit")


def observed(admission: Admission, would: tuple[str, ...], now: float) -> tuple[SetStatus, ...]:
    """Where nothing acts: what would be done."""
    return waits(admission, "Observing", f"nothing acts here; it would {'; '.join(would)}", now)


def _taint(there: bool) -> Wanted:
    if there:
        return Wanted("Tainted", True, "KeptOut", "new pods are kept away from it")
    return Wanted("Tainted", False, "Lifted", "new pods may come")


def _told(admission: Admission, status: AdmissionStatus, now: float, *wanted: Wanted) -> AdmissionStatus:
    """The status with these conditions in the place of those of the same types."""
    known = {one.type: one for one in status.conditions}
    for one in wanted:
        state: Any = "Unknown" if one.status is None else str(one.status)
        old = known.get(one.type)
        since = old.last_transition_time if old is not None and old.status == state else stamp(now)
        known[one.type] = Condition(
            type=one.type,
            status=state,
            reason=one.reason,
            message=plain(one.message, 1_000),
            last_transition_time=since,
        )
    return status.model_copy(
        update={
            "conditions": tuple(known[name] for name in sorted(known)),
            "observed_generation": admission.generation,
        }
    )


def _set(admission: Admission, status: AdmissionStatus) -> tuple[SetStatus, ...]:
    """Nothing where it says what it says already; the generation alone is worth no write."""
    same = status.model_copy(update={"observed_generation": admission.status.observed_generation})
    return () if same == admission.status else (SetStatus(status),)
