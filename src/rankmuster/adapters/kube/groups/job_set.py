"""A whole JobSet as one group: its child Jobs are deleted in the foreground, the one of the first pod last.

The JobSet's controller makes a Job anew that is not there, without counting a restart (jobset_controller.go: only a Job
that *failed* is counted against maxRestarts). Pods are not deleted by themselves: the Job would count each as a failure
against its backoffLimit, and the JobSet the failed Job as a restart, up to the one that ends it for good. In the
foreground a Job's object stays until its pods are gone, so that no new pod meets an old one of its Job.

Once a JobSet has ended (Failed, Completed) nothing is made anew, and nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.adapters.kube.api import JOBS, Conflict
from rankmuster.adapters.kube.fields import controller, text
from rankmuster.adapters.kube.groups.base import PodGroup
from rankmuster.adapters.kube.groups.deleting import Target
from rankmuster.adapters.kube.members import JOBSET_NAME
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import InstanceView, PodView


class JobSetGroup(PodGroup):
    """Needs list and delete of jobs.batch."""

    def _stages(self, view: InstanceView, deadline: Deadline) -> Sequence[Sequence[Target]]:
        """Jobs without pods are listed. Raises Conflict where the first Job is another one by now."""
        first = _job(view.anchor) if view.anchor is not None else None
        known = {(pod.owner.name, pod.owner.uid) for pod in view.pods if pod.owner is not None}
        names = {name for name, _ in known}
        for raw in self._api.list(JOBS, view.namespace, deadline, labels=f"{JOBSET_NAME}={view.workload}"):
            owner = controller(raw)
            if owner is None or owner.uid != view.workload_uid:
                continue
            name, uid = text(raw, "metadata", "name"), text(raw, "metadata", "uid")
            if name is None or uid is None:
                continue
            if first is not None and name == first.name and uid != first.uid:
                raise Conflict(f"job {name} of {view.name} is another one than a moment ago: nothing was deleted")
            if name not in names and text(raw, "metadata", "deletionTimestamp") is None:
                known.add((name, uid))
        others = [
            Target(JOBS, view.namespace, name, uid, foreground=True)
            for name, uid in sorted(known)
            if first is None or uid != first.uid
        ]
        return [others, [first] if first is not None else []]

    def _calls(self, view: InstanceView) -> list[str]:
        jobs = {target.uid: target for target in map(_job, view.pods) if target is not None}
        last = _job(view.anchor) if view.anchor is not None else None
        ordered = sorted(jobs.values(), key=lambda one: (last is not None and one.uid == last.uid, one.name))
        return [one.words for one in ordered]


def _job(pod: PodView) -> Target | None:
    if pod.owner is None:
        return None
    return Target(JOBS, pod.namespace, pod.owner.name, pod.owner.uid, foreground=True)
