"""What is seen of the cluster for one admission: its Job, who holds its node's GPUs, and which good node is idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rankmuster.adapters.kube.api import PODS, Api, KubeError
from rankmuster.adapters.kube.fields import parts, text, whole
from rankmuster.adapters.kube.job_look import Failing, JobLook
from rankmuster.adapters.kube.job_seen import look_at_job
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.baseline.pairs import PairResult
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.fleet import Fleet
from rankmuster.kube.admission.keep import CannotJudge, Keeper
from rankmuster.kube.admission.pair_output import pair_results
from rankmuster.kube.admission.result import Result
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.kube import NodeView
from rankmuster.model.unknown import Unknown

MOST_ASKED = 5
"""Good nodes that are asked whether they are idle, in one turn and for one node."""


class Looking:
    """`deadline` bounds each call of it."""

    def __init__(
        self,
        api: Api,
        settings: AdmissionSettings,
        keeper: Keeper,
        fingerprints: Callable[[str], Fingerprint | None],
        namespace: str,
    ) -> None:
        self._api, self._settings, self._keeper, self._namespace = api, settings, keeper, namespace
        self._fingerprints = fingerprints

    def under_way(self, one: Admission, node: NodeView, fleet: Fleet, deadline: Deadline) -> dict[str, Any]:
        """Fields of a `Look` at a node that is tested: its Job, or its pair's, and with whom it could be measured.
        Raises HistoryError."""
        status = one.status
        if status.decision is None:
            if status.job is None:
                return {}
            job, result, why = self._alone(one, deadline)
            return {"job": job, "result": result, "unjudged": why}
        good = fleet.good(node)
        if status.pair_job is None:
            used = {pair.with_node for pair in status.pairs}
            return {"any_good": bool(good), "good": self._idle(good, used, deadline)}
        pair, measured = self._together(one, deadline)
        # `good`: whether a second one could be asked at all
        return {"any_good": bool(good), "good": good, "pair": pair, "measured": measured}

    def _known_node(self, name: str) -> str | None:
        fingerprint = self._fingerprints(name)
        value = None if fingerprint is None else fingerprint.node_hash
        return None if value is None or isinstance(value, Unknown) else value

    def _alone(self, admission: Admission, deadline: Deadline) -> tuple[JobLook, Result | None, str]:
        """(how its Job stands, its judged result, why there is none yet)."""
        status, node = admission.status, admission.node
        assert status.job is not None
        look = look_at_job(self._api, status.job, self._namespace, admission.uid, (node,), deadline)
        if not look.believed:
            return look, None, ""
        try:
            return (
                look,
                self._keeper.result(look.said[node], node, (self._settings.job.profile,), self._known_node(node)),
                "",
            )
        except NotSaid as error:
            return replace(look, said={}, failing=Failing.GARBAGE, note=str(error)), None, ""
        except CannotJudge as error:
            return look, None, str(error)

    def _together(self, admission: Admission, deadline: Deadline) -> tuple[JobLook, tuple[PairResult, ...]]:
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

    def _idle(self, candidates: tuple[str, ...], used: set[str], deadline: Deadline) -> tuple[str, ...]:
        """Those of the first candidates whose GPUs nobody holds. `used`: that were measured with already."""
        asked = [one for one in candidates if one not in used][:MOST_ASKED]
        return tuple(one for one in asked if self.holders(one, deadline) == ())


def _asks(pod: Mapping[str, Any], resource: str) -> bool:
    containers = (*parts(pod, "spec", "containers"), *parts(pod, "spec", "initContainers"))
    return any((whole(one, "resources", "limits", resource) or 0) > 0 for one in containers)
