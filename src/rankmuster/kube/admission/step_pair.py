"""A node that passed alone, together with a known good one: which, how it goes, and what follows. Pure.

One slow pair accuses two nodes and the path between them. So a pair that was slow, or hung, is measured once more with
another good node before anything follows from it.
"""

from __future__ import annotations

from rankmuster.adapters.kube.job_look import Failing, JobLook, JobState
from rankmuster.admission.nodes import admit_nodes
from rankmuster.baseline.pairs import PairResult
from rankmuster.kube.admission import say
from rankmuster.kube.admission.acts import Act, CreateJob, RecordResult, SetStatus
from rankmuster.kube.admission.names import job_name
from rankmuster.kube.admission.result import Result
from rankmuster.kube.admission.seen import Admission, Look
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.admission.step_job import concluded, dropped, failed, no_result
from rankmuster.kube.crd.admission import AdmissionStatus, Paired
from rankmuster.model.admission import Decision
from rankmuster.model.kube import NodeView

MOST_GOOD = 2
"""Good nodes that a node is measured with: slow with two of them is bad (`baseline.pairs.PROVEN_NEEDED`)."""

MOST_REASON = 500


def pairing(
    admission: Admission, node: NodeView, look: Look, now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """The node has passed alone; its pair is next, or under way."""
    status = admission.status
    if status.pair_job is None:
        return _next(admission, node, look, now, settings)
    job = look.pair
    if job is None or job.state is JobState.UNKNOWN:
        note = job.note if job is not None else "its Job was not looked at"
        return say.waits(admission, "Unseen", note, now)
    objection = no_result(job, now, settings.job.start_seconds, settings.job.pair_work_seconds)
    if objection is not None:
        return _unmeasured(admission, job, objection, now, settings)
    if job.state is not JobState.ENDED:
        return say.under_way(admission, job, now)
    if not look.measured:
        return say.waits(admission, "NotJudged", look.unjudged or "its result was not read yet", now)
    return _measured(admission, look, now, settings)


def record_of(admission: Admission, pairs: tuple[Paired, ...], floor: float | None) -> Result:
    """All pairs of this node, judged together. Its times are the status's, so that it is the same when made again."""
    good = tuple(dict.fromkeys(one.with_node for one in pairs))
    results = [PairResult(admission.node, one.with_node, one.busbw, one.reason, one.rail) for one in pairs]
    at = say.seconds(admission.status.started_at, admission.created)
    nodes = (admission.node, *good)
    record = admit_nodes(results, started_at=at, ended_at=at, floor=floor, nodes=nodes, trusted=good)
    return Result(record)


def _next(admission: Admission, node: NodeView, look: Look, now: float, settings: AdmissionSettings) -> tuple[Act, ...]:
    status = admission.status
    used = {one.with_node for one in status.pairs}
    good = next((one for one in look.good if one not in used and one != node.name), None)
    if good is not None:
        if not look.may_start.allowed:
            return say.waits(admission, "Queued", look.may_start.why, now)
        if look.holders:
            return say.waits(admission, "InUse", f"GPUs of node {node.name} are in use by {look.holders[0]}", now)
        name = job_name(node.name, admission.uid, status.again, status.pair_attempts + 1, pair=True)
        return (CreateJob(name, good), SetStatus(say.begun_pair(admission, name, good, now)))
    if status.pairs:
        return _concluded(admission, status, now, settings)
    if not look.any_good:
        return _alone(admission, "no known good node of its kind is there to measure it with", now, settings)
    waited = now - say.seconds(status.ended_at, now)
    if settings.pairs == "try" and waited > settings.pair_wait_seconds:
        why = f"no good node was idle within {settings.pair_wait_seconds:.0f} s to measure it with"
        return _alone(admission, why, now, settings)
    return say.waits(admission, "WaitsForGoodNode", "it passed alone; a good node that is idle is waited for", now)


def _alone(admission: Admission, why: str, now: float, settings: AdmissionSettings) -> tuple[Act, ...]:
    """What was measured alone decides; the reasons say so."""
    status = admission.status
    told = status.model_copy(update={"reasons": say.reasons((*status.reasons[:15], why))})
    return concluded(admission, told, Decision(status.decision), now, settings)


def _measured(admission: Admission, look: Look, now: float, settings: AdmissionSettings) -> tuple[Act, ...]:
    status = admission.status
    good = status.with_node or ""
    more = tuple(
        Paired(with_node=good, busbw=one.busbw, reason=one.reason[:MOST_REASON], rail=one.rail) for one in look.measured
    )
    pairs = (*status.pairs, *more)
    told = status.model_copy(update={"pairs": pairs, "pair_job": None})
    result = record_of(admission, pairs, settings.pair_floor)
    used = {one.with_node for one in pairs}
    if result.decision is not Decision.PASS and len(used) < MOST_GOOD and any(one not in used for one in look.good):
        return (SetStatus(told),)
    return _concluded(admission, told, now, settings)


def _concluded(
    admission: Admission, status: AdmissionStatus, now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """Alone and together: the worse of the two decides."""
    result = record_of(admission, status.pairs, settings.pair_floor)
    alone = Decision(status.decision)
    both = result.decision if result.decision in (Decision.FAIL, Decision.PROVISIONAL) else alone
    decision = both if result.decision is not Decision.ERROR else Decision.PROVISIONAL
    words = tuple(f"with {', '.join(result.record.nodes[1:])}: {one}" for one in result.record.reasons)
    told = status.model_copy(
        update={"reasons": say.reasons((*words, *status.reasons) if both is not alone else (*status.reasons, *words))}
    )
    return (RecordResult(result), *concluded(admission, told, decision, now, settings))


def _unmeasured(
    admission: Admission, job: JobLook, objection: tuple[Failing, str], now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """The pair's Job came to nothing: another one follows, with whichever good node is idle then."""
    status = admission.status
    if status.pair_attempts >= settings.attempts:
        return failed(admission, job, *objection, now, settings)
    told = status.model_copy(update={"pair_job": None, "with_node": None})
    said = say.waits(admission, objection[0].value, f"{objection[1]}; another attempt follows", now)
    conditions = said[0].status.conditions if said else status.conditions
    return (*dropped(job, objection[1]), SetStatus(told.model_copy(update={"conditions": conditions})))
