"""Jobs, Indexed or not: backoffLimit, podFailurePolicy, activeDeadlineSeconds, suspend, ttlSecondsAfterFinished.

Pods are counted under the finalizer `batch.kubernetes.io/job-tracking`, so that none is lost or counted twice. A Job
that fails ends the pods that still run. Not there: backoffLimitPerIndex, successPolicy, managedBy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kube_sim.controllers.base import Controller, Key, key_of, of_owner
from kube_sim.objects import (
    Object,
    active,
    add_environment,
    annotations,
    condition,
    deleting,
    finished,
    is_true,
    name,
    namespace,
    phase,
    pod_of,
    set_condition,
    stamp,
    uid,
    unix,
)

if TYPE_CHECKING:
    from kube_sim.cluster import Cluster

KIND = "jobs.batch"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BACK_OFF, MOST_BACK_OFF = 10.0, 600.0
"""Seconds before the pod after a failed one, doubled."""


class Jobs(Controller):
    watches = (KIND, "pods")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._failed_at: dict[str, tuple[int, float]] = {}

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (key_of(obj),) if kind == KIND else of_owner("Job", obj)

    def reconcile(self, key: Key) -> None:
        job = self.cache.get(KIND, *key)
        if job is None or deleting(job):
            self._let_go(key, job)
            return
        if is_true(job, "Complete") or is_true(job, "Failed"):
            self._after(job)
            return
        job = self._count(job)
        if job is None:
            return
        verdict = self._verdict(job)
        if verdict is not None:
            self._end(job, *verdict)
            return
        if job["spec"].get("suspend"):
            self._suspend(job)
        else:
            self._bring(job)
        self._report(job)

    def _let_go(self, key: Key, job: Object | None) -> None:
        """Pods of a Job that is gone: nobody counts them any more."""
        if job is not None:
            for pod in self.cache.owned(uid(job), "pods"):
                self._untrack(pod)
            return
        for pod in self.cache.all("pods", key[0]):
            if key in of_owner("Job", pod):
                self._untrack(pod)

    def _count(self, job: Object) -> Object | None:
        """Finished pods go into the status, then they lose the finalizer."""
        done = [
            one
            for one in self.cache.owned(uid(job), "pods")
            if TRACKING in (one["metadata"].get("finalizers") or [])
            and (finished(one) or (deleting(one) and not one["spec"].get("nodeName")))
        ]
        if not done:
            return job
        indexed = _indexed(job)

        def change(current: Object) -> None:
            status = current.setdefault("status", {})
            for pod in done:
                if phase(pod) == "Succeeded":
                    indexes = set(_numbers(status.get("completedIndexes", "")))
                    if indexed:
                        indexes.add(int(annotations(pod)[INDEX]))
                        status["completedIndexes"] = _ranges(sorted(indexes))
                        status["succeeded"] = len(indexes)
                    else:
                        status["succeeded"] = status.get("succeeded", 0) + 1
                elif _rule(current, pod) != "Ignore":
                    status["failed"] = status.get("failed", 0) + 1

        after = self.status(job, change)
        failures = int(((after or job).get("status") or {}).get("failed", 0))
        if failures > self._failed_at.get(uid(job), (0, 0.0))[0]:
            self._failed_at[uid(job)] = (failures, self.now)
        for pod in done:
            self._untrack(pod)
        return after

    def _untrack(self, pod: Object) -> None:
        def change(current: Object) -> bool | None:
            there = current["metadata"].get("finalizers") or []
            if TRACKING not in there:
                return False
            current["metadata"]["finalizers"] = [one for one in there if one != TRACKING]
            return None

        self.edit(pod, change)

    def _verdict(self, job: Object) -> tuple[str, str, str] | None:
        """Condition, reason, message; None while it goes on."""
        spec, status = job["spec"], job.get("status") or {}
        for pod in self.cache.owned(uid(job), "pods"):
            if phase(pod) == "Failed" and _rule(job, pod) == "FailJob":
                code = _code(pod)
                return (
                    "Failed",
                    "PodFailurePolicy",
                    f"Container {_first(pod)} for pod {namespace(pod)}/{name(pod)} failed with exit code {code} "
                    "matching FailJob rule",
                )
        if int(status.get("failed", 0)) > int(spec.get("backoffLimit", 6)):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        limit = spec.get("activeDeadlineSeconds")
        if limit is not None and status.get("startTime"):
            left = unix(status["startTime"]) + int(limit) - self.now
            if left <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.work.add_after(left, self, key_of(job))
        wanted = spec.get("completions")
        pods = self.cache.owned(uid(job), "pods")
        succeeded = int(status.get("succeeded", 0))
        if wanted is not None and succeeded >= int(wanted):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if wanted is None and succeeded and not any(active(one) for one in pods):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _end(self, job: Object, type_: str, reason: str, message: str) -> None:
        """First the pods that run, under FailureTarget or SuccessCriteriaMet; then it has ended."""
        target = "FailureTarget" if type_ == "Failed" else "SuccessCriteriaMet"
        self.status(job, lambda current: set_condition(current, target, True, self.now, reason, message))
        left = [one for one in self.cache.owned(uid(job), "pods") if not finished(one)]
        for pod in left:
            if not deleting(pod):
                self.delete(pod)
        for pod in self.cache.owned(uid(job), "pods"):
            if deleting(pod):
                self._untrack(pod)
        if any(one["spec"].get("nodeName") for one in self.cache.owned(uid(job), "pods") if not finished(one)):
            return

        def change(current: Object) -> None:
            set_condition(current, type_, True, self.now, reason, message)
            status = current["status"]
            status.update(active=0, ready=0)
            if type_ == "Complete":
                status["completionTime"] = stamp(self.now)

        self.status(job, change)

    def _after(self, job: Object) -> None:
        self._failed_at.pop(uid(job), None)
        for pod in self.cache.owned(uid(job), "pods"):
            self._untrack(pod)
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        left = unix(ended["lastTransitionTime"]) + int(seconds) - self.now
        if left <= 0:
            self.delete(job, "Foreground")
        else:
            self.work.add_after(left, self, key_of(job))

    def _suspend(self, job: Object) -> None:
        for pod in self.cache.owned(uid(job), "pods"):
            if active(pod):
                self.delete(pod)

        def change(current: Object) -> None:
            set_condition(current, "Suspended", True, self.now, "JobSuspended", "Job suspended")
            current["status"].pop("startTime", None)

        self.status(job, change)

    def _bring(self, job: Object) -> None:
        if not (job.get("status") or {}).get("startTime") or is_true(job, "Suspended"):

            def begun(current: Object) -> None:
                current.setdefault("status", {})["startTime"] = stamp(self.now)
                if condition(current, "Suspended"):
                    set_condition(current, "Suspended", False, self.now, "JobResumed", "Job resumed")

            job = self.status(job, begun) or job
            if job["spec"].get("activeDeadlineSeconds") is not None:
                self.work.add_after(float(job["spec"]["activeDeadlineSeconds"]), self, key_of(job))
        failures, at = self._failed_at.get(uid(job), (0, 0.0))
        if failures:
            left = at + min(BACK_OFF * 2 ** (failures - 1), MOST_BACK_OFF) - self.now
            if left > 0:
                self.work.add_after(left, self, key_of(job))
                return
        pods = self.cache.owned(uid(job), "pods")
        running = [one for one in pods if not finished(one)]  # also those that are being deleted: their successors wait
        spec = job["spec"]
        parallel = int(spec.get("parallelism", 1))
        if _indexed(job):
            total = int(spec["completions"])
            done = set(_numbers((job.get("status") or {}).get("completedIndexes", "")))
            taken = {int(annotations(one)[INDEX]) for one in running}
            free = [one for one in range(total) if one not in done | taken]
            for index in free[: max(0, parallel - len(running))]:
                self._make(job, index)
            return
        left = parallel if spec.get("completions") is None else int(spec["completions"]) - int(
            (job.get("status") or {}).get("succeeded", 0)
        )  # fmt: skip
        if spec.get("completions") is None and (job.get("status") or {}).get("succeeded"):
            return
        for _ in range(min(parallel, left) - len(running)):
            self._make(job, None)

    def _make(self, job: Object, index: int | None) -> None:
        middle = "" if index is None else f"-{index}"
        pod = pod_of(job["spec"]["template"], f"{name(job)}{middle}-{self.suffix()}", namespace(job), job)
        metadata = pod["metadata"]
        metadata["finalizers"] = [TRACKING]
        for prefix in ("", "batch.kubernetes.io/"):
            metadata["labels"] |= {f"{prefix}job-name": name(job), f"{prefix}controller-uid": uid(job)}
        if index is not None:
            metadata["labels"][INDEX] = metadata["annotations"][INDEX] = str(index)
            pod["spec"]["hostname"] = f"{name(job)}-{index}"
            add_environment(pod, {"JOB_COMPLETION_INDEX": str(index)})
        self.cluster.admit_pod(pod)
        self.create(pod)

    def _report(self, job: Object) -> None:
        pods = [one for one in self.cache.owned(uid(job), "pods") if not finished(one)]

        def change(current: Object) -> None:
            current.setdefault("status", {}).update(
                active=sum(not deleting(one) for one in pods),
                terminating=sum(deleting(one) for one in pods),
                ready=sum(is_true(one, "Ready") for one in pods),
            )

        self.status(job, change)


def _indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _first(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["name"])


def _codes(pod: Object) -> dict[str, int]:
    found = {}
    for one in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (one.get("state") or {}).get("terminated")
        if ended:
            found[one["name"]] = int(ended["exitCode"])
    return found


def _code(pod: Object) -> int:
    return next((code for code in _codes(pod).values() if code), 0)


def _rule(job: Object, pod: Object) -> str:
    """The action of the first rule of its podFailurePolicy that fits; Count where none does."""
    for rule in (job["spec"].get("podFailurePolicy") or {}).get("rules") or []:
        on = rule.get("onExitCodes")
        if on:
            codes = [code for which, code in _codes(pod).items() if code and on.get("containerName") in (None, which)]
            if any((code in on["values"]) == (on["operator"] == "In") for code in codes):
                return str(rule["action"])
        for pattern in rule.get("onPodConditions") or []:
            found = condition(pod, pattern["type"])
            if found is not None and found["status"] == pattern.get("status", "True"):
                return str(rule["action"])
    return "Count"


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _ranges(numbers: list[int]) -> str:
    """`0-2,5`."""
    parts: list[list[int]] = []
    for one in numbers:
        if parts and parts[-1][-1] == one - 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    return ",".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)
