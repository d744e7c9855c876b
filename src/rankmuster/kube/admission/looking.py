"""What is seen of the cluster for one admission: its Job, who holds its node's GPUs, and which good node is idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rankmuster.adapters.kube.api import PODS, Api, KubeError
from rankmuster.adapters.kube.fields import parts, text, whole
from rankmuster.adapters.kube.job_look import Failing, JobLook
from rankmuster.adapters.kube.job_seen import look_at_job
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.baseline.pairs import PairResult
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.keep import CannotJudge, Keeper
from rankmuster.kube.admission.pair_output import pair_results
from rankmuster.kube.admission.result import Result
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.admission.settings import AdmissionSettings

MOST_ASKED = 5
"""Good nodes that are asked whether they are idle, in one turn and for one node."""


class Looking:
    """`deadline` bounds each call of it."""

    def __init__(self, api: Api, settings: AdmissionSettings, keeper: Keeper, namespace: str) -> None:
        self._api, self._settings, self._keeper, self._namespace = api, settings, keeper, namespace

    def alone(
        self, admission: Admission, known_node: str | None, deadline: Deadline
    ) -> tuple[JobLook, Result | None, str]:
        """(how its Job stands, its judged result, why there is none yet). Raises HistoryError's kin as words."""
        status, node = admission.status, admission.node
        assert status.job is not None
        look = look_at_job(self._api, status.job, self._namespace, admission.uid, (node,), deadline)
        if not look.believed:
            return look, None, ""
        try:
            return look, self._keeper.result(look.said[node], node, self._settings.job.profile, known_node), ""
        except NotSaid as error:
            return replace(look, said={}, failing=Failing.GARBAGE, note=str(error)), None, ""
        except CannotJudge as error:
            return look, None, str(error)

    def together(self, admission: Admission, deadline: Deadline) -> tuple[JobLook, tuple[PairResult, ...]]:
        """How the Job of its pair stands, and what was measured."""
        status, node = admission.status, admission.node
        assert status.pair_job is not None
        good = status.with_node or ""
        look = look_at_job(self._api, status.pair_job, self._namespace, admission.uid, (node, good), deadline)
        if not look.believed:
            return look, ()
        try:
            return look, pair_results(look.said, node, good, self._settings.job.pair_seconds)
        except NotSaid as error:
            return replace(look, said={}, failing=Failing.GARBAGE, note=str(error)), ()

    def holders(self, node: str, deadline: Deadline) -> tuple[str, ...] | None:
        """Pods that hold GPUs of the node, as NAMESPACE/NAME; None where it cannot be seen."""
        try:
            found = self._api.list(PODS, None, deadline, fields=f"spec.nodeName={node}")
        except KubeError:
            return None
        resource = self._settings.job.gpu_resource
        return tuple(
            f"{text(pod, 'metadata', 'namespace')}/{text(pod, 'metadata', 'name')}"
            for pod in found
            if text(pod, "status", "phase") not in ("Succeeded", "Failed") and _asks(pod, resource)
        )

    def idle(self, candidates: tuple[str, ...], used: set[str], deadline: Deadline) -> tuple[str, ...]:
        """Those of the first candidates whose GPUs nobody holds. `used`: that were measured with already."""
        asked = [one for one in candidates if one not in used][:MOST_ASKED]
        return tuple(one for one in asked if self.holders(one, deadline) == ())


def _asks(pod: Mapping[str, Any], resource: str) -> bool:
    containers = (*parts(pod, "spec", "containers"), *parts(pod, "spec", "initContainers"))
    return any((whole(one, "resources", "limits", resource) or 0) > 0 for one in containers)
