"""The state machine of one NodeAdmission: what is to be done now, from what was seen. Pure.

A node that was not admitted is tainted until it is, or until a person lets it in. Only a believed record that says
`pass` admits (and what the settings let in besides); whatever else comes of a Job is no pass. The result is in the
history before the taint is lifted, and the taint is lifted before the status says so: after a crash at any point the
same steps lead to the same end.
"""

from __future__ import annotations

from rankmuster.kube.admission import say, step_job, step_pair
from rankmuster.kube.admission.acts import Act, AskAgain, CreateJob, DeleteJob, LiftTaint, SetStatus, SetTaint
from rankmuster.kube.admission.begin import TRUSTED, trusted_status
from rankmuster.kube.admission.names import job_name
from rankmuster.kube.admission.seen import Admission, Look, tainted
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.crd.admission import Phase
from rankmuster.model.kube import NodeView


def step(
    admission: Admission, node: NodeView | None, look: Look, now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """In order; the first that cannot be done keeps back those after it."""
    status = admission.status
    if node is None or node.uid != admission.node_uid or look.superseded:
        return _outdated(admission, node, look, now)
    if status.phase is Phase.OUTDATED:
        return ()
    if admission.release is not None:
        return _released(admission, node, now)
    if status.phase is Phase.RELEASED or admission.again > status.again:
        return _anew(admission, now)
    if admission.trusted and status.phase is Phase.PENDING and admission.said("Admitted") is None:
        seal, why = look.passed or (None, TRUSTED)
        return (SetStatus(trusted_status(admission.generation, why, now, seal)),)
    if admission.admitted:
        if not tainted(node):
            return ()
        if admission.said("Tainted") == "False":
            return (AskAgain(f"somebody has put the taint on {node.name} by hand"),)
        return (LiftTaint("it was admitted"), *say.tainted(admission, now, False))
    if look.unsettled:
        return say.waits(admission, "BeingChanged", look.unsettled, now)
    if not tainted(node):
        if not look.may_taint.allowed:
            return say.untainted(admission, look.may_taint.why, now)
        return (SetTaint(admission.trigger or "it is new here"),)
    if status.phase is Phase.TESTING:
        if status.decision is None:
            return step_job.testing(admission, look, now, settings)
        return step_pair.pairing(admission, node, look, now, settings)
    if status.phase in (Phase.REFUSED, Phase.PROVISIONAL):
        return say.tainted(admission, now)
    return _start(admission, node, look, now, settings)


def _outdated(admission: Admission, node: NodeView | None, look: Look, now: float) -> tuple[Act, ...]:
    if admission.phase is Phase.OUTDATED:
        return ()
    if node is None:
        why = f"node {admission.node} is gone"
    elif node.uid != admission.node_uid:
        why = f"another node has the name {admission.node} now"
    else:
        why = look.superseded
    return (*_dropped(admission, why), *say.phase(admission, Phase.OUTDATED, "Outdated", why, now, admitted=None))


def _released(admission: Admission, node: NodeView, now: float) -> tuple[Act, ...]:
    release = admission.release
    assert release is not None
    why = f"released by {release.by}" + (f": {release.reason}" if release.reason else "")
    if admission.phase is Phase.RELEASED and admission.admitted:
        return ()
    lift = (LiftTaint(why),) if tainted(node) else ()
    said = say.phase(admission, Phase.RELEASED, "Released", why, now, admitted=True, kept_out=False)
    return (*_dropped(admission, why), *lift, *said)


def _anew(admission: Admission, now: float) -> tuple[Act, ...]:
    """A person asks for it, or takes a release back."""
    why = "it is asked for again" if admission.again > admission.status.again else "its release was taken back"
    return (*_dropped(admission, why), SetStatus(say.fresh(admission, why, now)))


def _dropped(admission: Admission, why: str) -> tuple[Act, ...]:
    """Its Jobs that may run, also one that was created and never written down."""
    status = admission.status
    if status.phase not in (Phase.PENDING, Phase.TESTING, Phase.ERROR):
        return ()
    paired = status.phase is Phase.TESTING and status.decision is not None
    written = (status.pair_job if paired else status.job) if status.phase is Phase.TESTING else None
    attempt = (status.pair_attempts if paired else status.attempts) + 1
    unwritten = job_name(admission.node, admission.uid, status.again, attempt, pair=paired)
    return (DeleteJob(written or unwritten, why),)


def _start(
    admission: Admission, node: NodeView, look: Look, now: float, settings: AdmissionSettings
) -> tuple[Act, ...]:
    """The next Job, unless something has to be waited for."""
    status = admission.status
    if status.phase is Phase.ERROR:
        if status.attempts >= settings.attempts or status.pair_attempts >= settings.attempts:
            return say.tainted(admission, now)
        due = say.seconds(status.ended_at, now) + step_job.backoff(status.attempts, settings)
        if now < due:
            return say.tainted(admission, now)
    waits = _waits(node, look, now, settings)
    if waits is not None:
        return say.waits(admission, *waits, now)
    name = job_name(admission.node, admission.uid, status.again, status.attempts + 1)
    return (CreateJob(name), SetStatus(say.begun(admission, name, now)))


def _waits(node: NodeView, look: Look, now: float, settings: AdmissionSettings) -> tuple[str, str] | None:
    """(reason, message) of what keeps a Job from being started."""
    if node.deleting:
        return "NodeIsDeleted", f"node {node.name} is being deleted"
    if node.gpus == 0:
        words = "it has no GPUs to give: does the device plug-in tolerate the taint rankmuster.dev/admission?"
        return "NoGpus", f"node {node.name}: {words}"
    if not node.ready:
        return "NotReady", f"node {node.name} is not ready"
    if node.unschedulable:
        return "Cordoned", f"node {node.name} is cordoned: it is tested once somebody uncordons it"
    if now < look.quiet_since + settings.settle_seconds:
        return "Settling", f"what is known of node {node.name} has changed just now: that it settles is waited for"
    if not look.may_start.allowed:
        return "Queued", look.may_start.why
    if look.holders is None:
        return "Unseen", f"whether the GPUs of node {node.name} are in use could not be seen"
    if look.holders:
        more = f" and {len(look.holders) - 3} more" if len(look.holders) > 3 else ""
        return "InUse", f"GPUs of node {node.name} are in use by {', '.join(look.holders[:3])}{more}"
    return None
