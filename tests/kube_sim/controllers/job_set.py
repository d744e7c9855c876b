"""JobSets (0.13): Jobs that are restarted together when one of them has failed.

A pod's end does nothing by itself: its Job has to fail. Then the first rule of `failurePolicy` that fits says what
happens, RestartJobSet where none does, up to `maxRestarts`: the Jobs of the attempt before are deleted in the
foreground and made anew with the next `restart-attempt`. In-place restarts are not there.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable
from typing import Any

from kube_sim.controllers.base import Controller, Key, key_of, of_owner
from kube_sim.objects import Object, condition, deleting, is_true, labels, name, namespace, owned_by, set_condition, uid

KIND, JOB = "jobsets.jobset.x-k8s.io", "jobs.batch"
P = "jobset.sigs.k8s.io"
ATTEMPT, JOB_ATTEMPT = f"{P}/restart-attempt", f"{P}/job-restart-attempt"


class JobSets(Controller):
    watches = (KIND, JOB)

    def keys(self, kind: str, type_: str, obj: Object, before: Object | None) -> Iterable[Any]:
        return (key_of(obj),) if kind == KIND else of_owner("JobSet", obj)

    def reconcile(self, key: Key) -> None:
        owner = self.cache.get(KIND, *key)
        if owner is None or deleting(owner) or is_true(owner, "Failed") or is_true(owner, "Completed"):
            return
        self._service(owner)
        attempt = int((owner.get("status") or {}).get("restarts", 0))
        jobs = self.cache.owned(uid(owner), JOB)
        old = [one for one in jobs if int(labels(one).get(ATTEMPT, "0")) < attempt]
        for one in old:
            if not deleting(one):
                self.delete(one, "Foreground")
        current = [one for one in jobs if one not in old and not deleting(one)]
        failed = [one for one in current if is_true(one, "Failed")]
        if failed and not owner["spec"].get("suspend"):
            self._failed(owner, failed)
            return
        blocking = (owner["spec"].get("failurePolicy") or {}).get("restartStrategy") == "BlockingRecreate"
        if not (blocking and old):
            self._bring(owner, jobs, attempt)
        if current and len(current) == _wanted(owner) and all(is_true(one, "Complete") for one in current):
            self.status(
                owner,
                lambda now: set_condition(
                    now, "Completed", True, self.now, "AllJobsCompleted", "jobset completed successfully"
                ),
            )
        self._report(owner)

    def _service(self, owner: Object) -> None:
        network = owner["spec"].get("network") or {}
        if network.get("enableDNSHostnames") is False:
            return
        subdomain = network.get("subdomain") or name(owner)
        if self.cache.get("services", namespace(owner), subdomain) is None:
            self.create(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {
                        "name": subdomain,
                        "namespace": namespace(owner),
                        "ownerReferences": [owned_by(owner)],
                    },
                    "spec": {
                        "clusterIP": "None",
                        "selector": {f"{P}/jobset-name": name(owner)},
                        "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
                    },
                }
            )

    def _failed(self, owner: Object, failed: list[Object]) -> None:
        policy = owner["spec"].get("failurePolicy") or {}
        first = min(failed, key=lambda one: (condition(one, "Failed") or {})["lastTransitionTime"])
        action = self._action(policy, first)
        limit = int(policy.get("maxRestarts", 0))
        status = owner.get("status") or {}
        counted = int(status.get("restartsCountTowardsMax", 0))
        ignoring = action.endswith("AndIgnoreMaxRestarts")
        if action == "FailJobSet" or (not policy and not ignoring):
            reason = "FailJobSetFailurePolicyAction" if policy else "FailedJobs"
            self._give_up(
                owner, reason, f"jobset failed due to one or more job failures (first failed job: {name(first)})"
            )
            return
        if not ignoring and counted >= limit:
            self._give_up(
                owner,
                "ReachedMaxRestarts",
                f"jobset failed due to reaching max number of restarts (first failed job: {name(first)})",
            )
            return
        if action.startswith("RestartJobSet"):

            def change(current: Object) -> None:
                status = current.setdefault("status", {})
                status["restarts"] = int(status.get("restarts", 0)) + 1
                status["restartsCountTowardsMax"] = counted + (0 if ignoring else 1)

            self.status(owner, change)
            self.event(
                owner,
                "RestartJobSetFailurePolicyAction",
                f"restarting jobset, first failed job: {name(first)}",
                "Warning",
            )
            return

        def counts(current: Object) -> None:
            status = current.setdefault("status", {})
            status["restartsCountTowardsMax"] = counted + (0 if ignoring else 1)
            own = status.setdefault("jobRestarts", {})
            own[name(first)] = int(own.get(name(first), 0)) + 1

        self.status(owner, counts)
        self.delete(first, "Foreground")

    @staticmethod
    def _action(policy: Object, job: Object) -> str:
        found = condition(job, "Failed") or {}
        for rule in policy.get("rules") or []:
            reasons, targets = rule.get("onJobFailureReasons") or [], rule.get("targetReplicatedJobs") or []
            patterns = rule.get("onJobFailureMessagePatterns") or []
            if reasons and found.get("reason") not in reasons:
                continue
            if targets and labels(job).get(f"{P}/replicatedjob-name") not in targets:
                continue
            if patterns and not any(re.search(one, found.get("message", "")) for one in patterns):
                continue
            return str(rule["action"])
        return "RestartJobSet"

    def _give_up(self, owner: Object, reason: str, message: str) -> None:
        self.status(owner, lambda current: set_condition(current, "Failed", True, self.now, reason, message))
        for one in self.cache.owned(uid(owner), JOB):
            if not is_true(one, "Failed") and not is_true(one, "Complete") and not deleting(one):
                self.delete(one, "Foreground")

    def _bring(self, owner: Object, jobs: list[Object], attempt: int) -> None:
        there = {name(one) for one in jobs}
        index = 0
        for replicated in owner["spec"]["replicatedJobs"]:
            for number in range(int(replicated.get("replicas", 1))):
                its_name = f"{name(owner)}-{replicated['name']}-{number}"
                if its_name not in there:
                    self.create(self._job(owner, replicated, number, index, attempt))
                index += 1
        if bool(owner["spec"].get("suspend")):
            for one in jobs:
                self._suspend(one, True)
        else:
            for one in jobs:
                self._suspend(one, False)

    def _suspend(self, job: Object, wanted: bool) -> None:
        def change(current: Object) -> bool | None:
            if bool(current["spec"].get("suspend")) == wanted:
                return False
            current["spec"]["suspend"] = wanted
            return None

        if bool(job["spec"].get("suspend")) != wanted and not deleting(job):
            self.edit(job, change)

    def _job(self, owner: Object, replicated: Object, number: int, index: int, attempt: int) -> Object:
        template = copy.deepcopy(replicated["template"])
        its_name = f"{name(owner)}-{replicated['name']}-{number}"
        restarts = ((owner.get("status") or {}).get("jobRestarts") or {}).get(its_name, 0)
        marks = {
            f"{P}/jobset-name": name(owner),
            f"{P}/jobset-uid": uid(owner),
            f"{P}/replicatedjob-name": replicated["name"],
            f"{P}/replicatedjob-replicas": str(replicated.get("replicas", 1)),
            f"{P}/job-index": str(number),
            f"{P}/job-global-index": str(index),
            f"{P}/job-key": hashlib.sha1(f"{namespace(owner)}/{its_name}".encode()).hexdigest(),
            ATTEMPT: str(attempt),
            JOB_ATTEMPT: str(restarts),
        }
        spec = template["spec"]
        pod = spec["template"]
        metadata = pod.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **marks}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks}
        network = owner["spec"].get("network") or {}
        if network.get("enableDNSHostnames") is not False:
            pod["spec"].setdefault("subdomain", network.get("subdomain") or name(owner))
        spec["suspend"] = bool(owner["spec"].get("suspend"))
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": its_name,
                "namespace": namespace(owner),
                "labels": {**((template.get("metadata") or {}).get("labels") or {}), **marks},
                "annotations": dict(marks),
                "ownerReferences": [owned_by(owner)],
            },
            "spec": spec,
        }

    def _report(self, owner: Object) -> None:
        jobs = [one for one in self.cache.owned(uid(owner), JOB) if not deleting(one)]
        rows = []
        for replicated in owner["spec"]["replicatedJobs"]:
            own = [one for one in jobs if labels(one).get(f"{P}/replicatedjob-name") == replicated["name"]]
            rows.append(
                {
                    "name": replicated["name"],
                    "ready": sum(_ready(one) for one in own),
                    "succeeded": sum(is_true(one, "Complete") for one in own),
                    "failed": sum(is_true(one, "Failed") for one in own),
                    "active": sum(bool((one.get("status") or {}).get("active")) for one in own),
                    "suspended": sum(bool(one["spec"].get("suspend")) for one in own),
                }
            )

        def change(current: Object) -> None:
            status = current.setdefault("status", {})
            status.setdefault("restarts", 0)
            status["replicatedJobsStatus"] = rows

        self.status(owner, change)


def _ready(job: Object) -> bool:
    status, spec = job.get("status") or {}, job["spec"]
    wanted = min(int(spec.get("parallelism", 1)), int(spec.get("completions") or spec.get("parallelism", 1)))
    return int(status.get("ready", 0)) + int(status.get("succeeded", 0)) >= wanted


def _wanted(owner: Object) -> int:
    return sum(int(one.get("replicas", 1)) for one in owner["spec"]["replicatedJobs"])
