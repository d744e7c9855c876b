"""Looks at a Job of ours: its object, its pods, and of an ended one what they said. Changes nothing.

What cannot be seen is UNKNOWN and is looked at again. What can be seen and is not exactly what was asked for (another
node, another hash, no words at all) is no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.adapters.kube.api import JOBS, PODS, Api, KubeError, NotThere
from rankmuster.adapters.kube.fields import condition, moment, part, parts, text, whole
from rankmuster.adapters.kube.job_look import Failing, JobLook, JobState, Payload
from rankmuster.adapters.kube.job_manifest import CONTAINER, FOR, JOB_LABEL
from rankmuster.adapters.kube.job_words import Ending, NotSaid, Summary, summary_of, unpacked
from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain

MOST_LOG = 16 << 20
"""Bytes of a log's end: a packed result has some hundred KiB."""

INDEX = "batch.kubernetes.io/job-completion-index"

_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_EVICTED = ("Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting", "NodeAffinity", "Shutdown")


def look_at_job(
    api: Api, name: str, namespace: str, belongs_to: str, nodes: tuple[str, ...], deadline: Deadline
) -> JobLook:
    """`nodes`: on which its pods have to have run. Raises nothing for expected trouble."""
    try:
        raw = api.get(JOBS, name, namespace, deadline)
    except NotThere:
        return JobLook(name=name, state=JobState.ABSENT, note=f"there is no Job {namespace}/{name}")
    except KubeError as error:
        return JobLook(name=name, state=JobState.UNKNOWN, note=f"Job {namespace}/{name} could not be read: {error}")
    uid = text(raw, "metadata", "uid")
    owner = text(raw, "metadata", "annotations", FOR)
    since = moment(raw, "metadata", "creationTimestamp") or 0.0
    if owner != belongs_to or uid is None:
        note = f"it belongs to {plain(owner, 80)}" if owner else "nothing says whose it is"
        return JobLook(name=name, state=JobState.OTHERS, uid=uid, since=since, note=note)
    try:
        found = api.list(PODS, namespace, deadline, labels=f"{JOB_LABEL}={name}")
    except KubeError as error:
        note = f"pods of Job {namespace}/{name} could not be listed: {error}"
        return JobLook(name=name, state=JobState.UNKNOWN, uid=uid, since=since, note=note)
    pods = [pod for pod in found if any(text(one, "uid") == uid for one in parts(pod, "metadata", "ownerReferences"))]
    if text(condition(raw, "Complete"), "status") == "True":
        return _ended(api, name, namespace, uid, since, nodes, pods, deadline)
    failed = condition(raw, "Failed")
    if text(failed, "status") == "True":
        failing, note = _why_failed(failed, pods, nodes)
        return JobLook(name=name, state=JobState.ENDED, uid=uid, since=since, failing=failing, note=note)
    return _under_way(name, uid, since, nodes, pods)


def _under_way(name: str, uid: str, since: float, nodes: tuple[str, ...], pods: list[dict[str, Any]]) -> JobLook:
    """Not ended: waiting as long as not all of its pods have begun."""
    begun = [pod for pod in pods if text(pod, "status", "phase") in ("Running", "Succeeded", "Failed")]
    if len(begun) >= len(nodes):
        started = max((moment(pod, "status", "startTime") or since for pod in begun), default=since)
        return JobLook(name=name, state=JobState.RUNNING, uid=uid, since=since, running_since=started)
    waiting = [pod for pod in pods if pod not in begun]
    failing, note = Failing.STARTING, "no pod was made of it yet (a quota, or what the namespace admits?)"
    for pod in waiting:
        failing, note = _why_waiting(pod)
    return JobLook(name=name, state=JobState.WAITING, uid=uid, since=since, failing=failing, note=note)


def _why_waiting(pod: Mapping[str, Any]) -> tuple[Failing, str]:
    scheduled = condition(pod, "PodScheduled")
    if text(scheduled, "status") == "False":
        words = text(scheduled, "message") or text(scheduled, "reason") or "no reason is given"
        return Failing.UNSCHEDULABLE, f"it is not scheduled: {plain(words, 300)}"
    for status in parts(pod, "status", "containerStatuses"):
        reason, told = text(status, "state", "waiting", "reason"), text(status, "state", "waiting", "message")
        if reason is not None:
            failing = Failing.IMAGE if reason in _IMAGE else Failing.STARTING
            return failing, plain(reason, 60) + (f": {plain(told, 300)}" if told else "")
    return Failing.STARTING, "its pod does not run yet, and nothing says why"


def _why_failed(failed: Mapping[str, Any], pods: list[dict[str, Any]], nodes: tuple[str, ...]) -> tuple[Failing, str]:
    """The most telling reason first: what took the pod away, what the pod said itself, what the Job says."""
    reason = text(failed, "reason") or "no reason is given"
    for pod in pods:
        where = text(pod, "spec", "nodeName")
        if where is not None and where not in nodes:
            return Failing.OTHER_NODE, f"its pod was on {plain(where, 100)}, not on {' or '.join(nodes)}"
        disruption = condition(pod, "DisruptionTarget")
        if text(disruption, "status") == "True":
            words = f"{text(disruption, 'reason')}: {text(disruption, 'message') or ''}"
            return Failing.EVICTED, f"its pod on {where} was taken away ({plain(words, 300)})"
        if text(pod, "status", "reason") in _EVICTED:
            words = f"{text(pod, 'status', 'reason')}: {text(pod, 'status', 'message') or ''}"
            return Failing.EVICTED, f"its pod on {where} was taken away ({plain(words, 300)})"
    if reason == "DeadlineExceeded":
        return Failing.HUNG, "it did not end in its time, and Kubernetes ended it (activeDeadlineSeconds)"
    for pod in pods:
        ended = _terminated(pod)
        try:
            said = summary_of(text(ended, "message"))
        except NotSaid as error:
            how = text(ended, "reason") or "its container has no exit status"
            return Failing.FAILED, f"{how} (exit status {whole(ended, 'exitCode')}): {error}"
        return _own_words(said)
    return Failing.GONE, f"its pod is gone ({plain(reason, 60)}: {plain(text(failed, 'message') or '', 200)})"


def _own_words(said: Summary) -> tuple[Failing, str]:
    failing = Failing.HUNG if said.ending is Ending.LATE else Failing.FAILED
    return failing, f"{said.ending.value}: {said.reason}"


def _ended(
    api: Api,
    name: str,
    namespace: str,
    uid: str,
    since: float,
    nodes: tuple[str, ...],
    pods: list[dict[str, Any]],
    deadline: Deadline,
) -> JobLook:
    """Complete: what its pods said, one of each node."""
    said: dict[str, Payload] = {}
    places: dict[str, int] = {}

    def made(failing: Failing | None, note: str, state: JobState = JobState.ENDED) -> JobLook:
        return JobLook(
            name=name, state=state, uid=uid, since=since, failing=failing, note=note, said=said, places=places
        )

    for pod in pods:
        if text(pod, "status", "phase") != "Succeeded":
            continue
        pod_name = text(pod, "metadata", "name") or ""
        on = text(pod, "spec", "nodeName")
        if on is None or on not in nodes or on in said:
            return made(Failing.OTHER_NODE, f"its pod {pod_name} was on {plain(on, 100)}, not on {_or(nodes)}")
        try:
            summary = summary_of(text(_terminated(pod), "message"))
            if summary.node != on:
                return made(
                    Failing.OTHER_NODE, f"pod {pod_name} says that it is on {plain(summary.node, 100)}, not {on}"
                )
            log = api.log(pod_name, namespace, deadline, container=CONTAINER, most_bytes=MOST_LOG)
            payload = unpacked(log, summary)
        except NotSaid as error:
            return made(Failing.GARBAGE, f"pod {pod_name} on {on}: {error}")
        except NotThere:
            return made(Failing.GONE, f"pod {pod_name} is gone, and its log with it")
        except KubeError as error:
            return made(None, f"the log of pod {pod_name} could not be read: {error}", JobState.UNKNOWN)
        if payload.node != on:
            return made(Failing.OTHER_NODE, f"the result of pod {pod_name} is of {plain(payload.node, 100)}, not {on}")
        said[on] = payload
        places[on] = whole(pod, "metadata", "labels", INDEX) or 0
    missing = [node for node in nodes if node not in said]
    if missing:
        return made(Failing.GONE, f"it is complete, and no pod of it on {_or(tuple(missing))} is there to be read")
    return made(None, "")


def _terminated(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    for status in parts(pod, "status", "containerStatuses"):
        if text(status, "name") == CONTAINER:
            return part(status, "state", "terminated") or part(status, "lastState", "terminated")
    return {}


def _or(nodes: tuple[str, ...]) -> str:
    return " or ".join(nodes)
