"""Does what a step asks for, over the API: each act once, or found done.

A taint is set and lifted in one patch with its owner annotation, bound to the node's UID and resourceVersion. A Job has
a name that is made of what it is for: one that is there already is taken for ours only if it says so.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import (
    ADMISSIONS,
    NODES,
    Api,
    Conflict,
    NotThere,
    Object,
)
from rankmuster.adapters.kube.fields import parts, stamp, text
from rankmuster.adapters.kube.job_keep import ensure, remove
from rankmuster.adapters.kube.job_manifest import JobOrder
from rankmuster.adapters.kube.rewriting import Pause, rewrite
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.acts import (
    Act,
    AskAgain,
    CreateJob,
    DeleteJob,
    LiftTaint,
    RecordResult,
    SetStatus,
    SetTaint,
)
from rankmuster.kube.admission.begin import Begun
from rankmuster.kube.admission.keep import Keeper
from rankmuster.kube.admission.names import FACTS
from rankmuster.kube.admission.read import begun, facts_text, owner_reference, status_patch
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.model.kube import ADMISSION_BY, ADMISSION_TAINT, NodeView

PENDING = "pending"
"""Value of the taint, as kubelets and Karpenter are told to set it."""


class Performer:
    """`image`, `namespace`: of Jobs, where the settings leave them open. `seen`: gets every object that an act brought
    back."""

    def __init__(
        self,
        api: Api,
        settings: AdmissionSettings,
        keeper: Keeper,
        *,
        image: str,
        namespace: str,
        wall: Callable[[], float],
        pause: Pause,
        seen: Callable[[Object], None],
    ) -> None:
        self._api, self._settings, self._keeper = api, settings, keeper
        self.image = settings.job.image or image
        self.namespace = settings.job.namespace or namespace
        self._wall, self._pause, self._seen = wall, pause, seen

    def do(self, act: Act, admission: Admission, node: NodeView | None, deadline: Deadline) -> None:
        """Raises KubeError, HistoryError."""
        if isinstance(act, SetTaint):
            self._taint(admission, act.why, deadline)
        elif isinstance(act, LiftTaint):
            self._lift(admission, deadline)
        elif isinstance(act, CreateJob):
            assert node is not None, "no Job is created for a node that is gone"
            self._create(act, admission, node, deadline)
        elif isinstance(act, DeleteJob):
            self._delete(act.name, admission, deadline)
        elif isinstance(act, RecordResult):
            self._keeper.keep(act.result)
        elif isinstance(act, AskAgain):
            self._ask_again(act.trigger, admission, deadline)
        elif isinstance(act, SetStatus):
            body = status_patch(admission, act.status)
            self._seen(self._api.patch(ADMISSIONS, admission.name, None, body, deadline, subresource="status"))

    def begin(self, one: Begun, deadline: Deadline) -> None:
        """Creates the NodeAdmission; one of that name is the one that is meant."""
        try:
            self._seen(self._api.create(ADMISSIONS, begun(one), None, deadline))
        except Conflict:
            self._seen(self._api.get(ADMISSIONS, one.name, None, deadline))

    def remember(self, admission: Admission, facts: Mapping[str, str], deadline: Deadline) -> None:
        """Facts that came to be known since it was begun."""
        body = {
            "metadata": {
                "resourceVersion": admission.resource_version,
                "annotations": {FACTS: facts_text({**facts, **admission.facts})},
            }
        }
        self._seen(self._api.patch(ADMISSIONS, admission.name, None, body, deadline))

    def forget(self, admission: Admission, deadline: Deadline) -> None:
        """An outdated one that nobody needs any more."""
        with contextlib.suppress(NotThere, Conflict):
            self._api.delete(ADMISSIONS, admission.name, None, deadline, uid=admission.uid)

    def _taint(self, admission: Admission, why: str, deadline: Deadline) -> None:
        def change(raw: Object) -> dict[str, Any] | None:
            there = [dict(one) for one in parts(raw, "spec", "taints")]
            if any(one.get("key") == ADMISSION_TAINT for one in there):
                return None
            taint = {"key": ADMISSION_TAINT, "value": PENDING, "effect": "NoSchedule"}
            said = {"admission": admission.name, "at": stamp(self._wall()), "why": why[:300]}
            annotations = {ADMISSION_BY: json.dumps(said, sort_keys=True)}
            return {"metadata": {"annotations": annotations}, "spec": {"taints": [*there, taint]}}

        self._rewrite_node(admission, change, deadline)

    def _lift(self, admission: Admission, deadline: Deadline) -> None:
        def change(raw: Object) -> dict[str, Any] | None:
            there = [dict(one) for one in parts(raw, "spec", "taints")]
            kept = [one for one in there if one.get("key") != ADMISSION_TAINT]
            if len(kept) == len(there):
                return None
            return {"metadata": {"annotations": {ADMISSION_BY: None}}, "spec": {"taints": kept or None}}

        self._rewrite_node(admission, change, deadline)

    def _rewrite_node(
        self, admission: Admission, change: Callable[[Object], dict[str, Any] | None], deadline: Deadline
    ) -> None:
        found, _ = rewrite(
            self._api, NODES, admission.node, None, change, deadline, uid=admission.node_uid, pause=self._pause
        )
        self._seen(found)

    def _create(self, act: CreateJob, admission: Admission, node: NodeView, deadline: Deadline) -> None:
        # where one of that name is none of ours the next look says so, and another attempt has another name
        ensure(self._api, self.order(act, admission, node), self._settings.job, deadline)

    def order(self, act: CreateJob, admission: Admission, node: NodeView) -> JobOrder:
        """What is to be created."""
        return JobOrder(
            name=act.name,
            namespace=self.namespace,
            image=self.image,
            nodes=(node.name,) if act.good is None else (node.name, act.good),
            gpus=node.gpus,
            belongs_to=admission.uid,
            owner=owner_reference(admission),
        )

    def _delete(self, name: str, admission: Admission, deadline: Deadline) -> None:
        with contextlib.suppress(NotThere, Conflict):
            remove(self._api, name, self.namespace, admission.uid, deadline)

    def _ask_again(self, trigger: str, admission: Admission, deadline: Deadline) -> None:
        """Asked of the node itself: what is known of it here may be older than our own lifting of the taint."""
        found = self._api.get(NODES, admission.node, None, deadline)
        self._seen(found)
        there = any(one.get("key") == ADMISSION_TAINT for one in parts(found, "spec", "taints"))
        if not there or text(found, "metadata", "uid") != admission.node_uid:
            return
        body = {
            "metadata": {"resourceVersion": admission.resource_version},
            "spec": {"again": admission.again + 1, "trigger": trigger[:1024]},
        }
        self._seen(self._api.patch(ADMISSIONS, admission.name, None, body, deadline))
