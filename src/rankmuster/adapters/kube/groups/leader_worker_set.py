"""A group of a LeaderWorkerSet: its leader is deleted in the foreground, and takes the workers with it.

The workers' StatefulSet is owned by the leader pod, with every restartPolicy (the controller's pod_controller.go,
v0.10): in the foreground the leader's object stays until all workers are gone, so no new leader meets old workers.
That is also how the controller itself makes a group anew. Workers that nobody has told to end after a while are deleted
as well, each with its UID.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.adapters.kube.groups.base import PodGroup
from rankmuster.adapters.kube.groups.deleting import Target, delete_all
from rankmuster.adapters.kube.members import LWS_WORKER
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import InstanceView, PodView

COLLECT_SECONDS = 5.0
"""Until workers whose leader goes should have been told to end; the garbage collector takes about a second."""


class LeaderWorkerSetGroup(PodGroup):
    """Needs delete of pods."""

    def _stages(self, view: InstanceView, deadline: Deadline) -> Sequence[Sequence[Target]]:  # noqa: ARG002
        leaders = [pod for pod in view.pods if pod.labels.get(LWS_WORKER) == "0"]
        if not leaders:
            return [[Target.pod(pod) for pod in view.pods if not pod.deleting]]
        return [[Target.pod(pod, foreground=True) for pod in leaders if not pod.deleting]]

    def _also(self, view: InstanceView, left: tuple[PodView, ...], took: float, deadline: Deadline) -> None:  # noqa: ARG002
        forgotten = [Target.pod(pod) for pod in left if not pod.deleting]
        if forgotten and took >= COLLECT_SECONDS:
            delete_all(self._api, [forgotten], deadline)
