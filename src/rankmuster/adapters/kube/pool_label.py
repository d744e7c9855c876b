"""One instance's pods are taken out of an InferencePool by the label by which it selects them.

The label gets a value that selects nothing, and an annotation keeps the one that it had. A pod that is made anew has
the template's label again: it is in the pool as soon as it is Ready. Whether an endpoint picker has followed is seen at
the picker only; it does within a watch's delay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rankmuster.adapters.kube.api import JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Api, KubeError, NotThere, Object
from rankmuster.adapters.kube.endings import failed
from rankmuster.adapters.kube.events import Events, Touched
from rankmuster.adapters.kube.fields import part, parts, text
from rankmuster.adapters.kube.pods_of import MOST_NAMED, Pods, doubted, live, unclear, written
from rankmuster.adapters.kube.rewriting import Pause, rewrite
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState
from rankmuster.model.kube import DOMAIN, InstanceView, OwnerView, PodView

PARKED = f"parked.{DOMAIN}"
"""The value that selects nothing."""

KEPT = f"{DOMAIN}/parked-labels"
"""Annotation of a pod: JSON, label -> the value that it had."""

OWNERS = {"StatefulSet": STATEFUL_SETS, "ReplicaSet": REPLICA_SETS, "Job": JOBS}

CONTROLLERS = (
    "leaderworkerset.sigs.k8s.io/",
    "jobset.sigs.k8s.io/",
    "batch.kubernetes.io/",
    "apps.kubernetes.io/",
    "statefulset.kubernetes.io/",
    "pod-template-hash",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    f"{DOMAIN}/",
)
"""Labels by which controllers know their pods, and ours."""


class PoolLabel:
    """A Traffic. `label`: of the pool's selector (`spec.selector.matchLabels`)."""

    def __init__(
        self,
        api: Api,
        name: str,
        label: str,
        pods: Pods,
        *,
        events: Events | None = None,
        pause: Pause = time.sleep,
    ) -> None:
        self._api, self._name, self._label, self._pods = api, name, label, pods
        self._events, self._pause = events, pause

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def look(self, deadline: Deadline) -> TrafficLook:
        """STOPPED: all pods that had the label have it parked. ABSENT: none has it, or there are no pods."""
        try:
            view = self._pods(deadline)
            return doubted(self._seen(view), view)
        except KubeError as error:
            return TrafficLook(state=TrafficState.UNKNOWN, note=str(error))

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """Parks the label. REFUSED where the pods' own controller knows them by it: it would make others."""
        if self._label.startswith(CONTROLLERS):
            note = f"controllers know their pods by the label {self._label}: without it they would make others"
            return Answer(ending=Ending.REFUSED, note=note, data={"sent": False})
        try:
            view = self._pods(deadline)
            unknown = unclear(view, "no label was changed")
            if unknown is not None:
                return unknown
            carry = [one for one in live(view) if self._label in one.labels]
            objection = self._selected(view, carry, deadline)
        except KubeError as error:
            return failed("no label was changed, since pods or their controllers could not be read", error)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"{objection}; no label was changed", data={"sent": False})
        if not carry:
            note = f"no pod of {view.name} has the label {self._label}: the pool does not select them"
            return Answer(ending=Ending.DONE, note=note, data={"before": "absent"})
        return self._all(carry, self._park, "parked", reason, TrafficState.STOPPED, deadline)

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """As `stop_new`; what runs is not ended by it: REFUSED."""
        stopped = self.stop_new(reason, deadline)
        if stopped.ending is not Ending.DONE:
            return stopped
        note = "a label cannot end what runs: its clients see their connections break when the group is ended"
        return Answer(ending=Ending.REFUSED, note=f"{stopped.note}; {note}", data=stopped.data)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """REFUSED: there are no weights."""
        del percent, deadline
        return Answer(ending=Ending.REFUSED, note="a label has no weights: a pod is in the pool or it is not")

    def restore(self, deadline: Deadline) -> Answer:
        """Every label gets back exactly the value that it had. One that others have changed since stays theirs."""
        try:
            view = self._pods(deadline)
        except KubeError as error:
            return failed("no label was given back, since the pods could not be read", error)
        parked = [one for one in live(view) if one.labels.get(self._label) == PARKED or KEPT in one.annotations]
        if not parked:
            seen = self._seen(view)
            ending = Ending.DONE if seen.state is TrafficState.READY else Ending.FAILED
            note = f"no label {self._label} of {view.name} is parked"
            return Answer(ending=ending, note=f"{note}; {seen.note}" if seen.note else note)
        return self._all(parked, self._unpark, "given back", "the incident is over", TrafficState.READY, deadline)

    def would(self, verb: str, *, percent: float | None = None) -> tuple[str, ...]:
        """The patch, in words."""
        del percent
        if verb == "set_weight":
            return ("nothing: a label has no weights",)
        if verb == "restore":
            return (f"PATCH pods of the instance: label {self._label} as annotation {KEPT} has kept it",)
        return (f"PATCH pods of the instance: label {self._label}={PARKED}, its value into annotation {KEPT}",)

    def _all(
        self,
        pods: Sequence[PodView],
        change: Callable[[Object], Mapping[str, Any] | None],
        word: str,
        reason: str,
        wanted: TrafficState,
        deadline: Deadline,
    ) -> Answer:
        results = written([partial(self._one, one, change, word, reason, deadline) for one in pods], deadline)
        errors = [one for one in results if isinstance(one, KubeError)]
        what = f"{sum(one is True for one in results)} of {len(pods)} labels {self._label} were {word}"
        if errors:
            return failed(what, errors[0])
        try:
            seen = self._seen(self._pods(deadline))
        except KubeError as error:
            return failed(f"{what}, and how they stand now is not known", error)
        good = seen.state in (wanted, TrafficState.ABSENT) if wanted is TrafficState.STOPPED else seen.state is wanted
        ending = Ending.DONE if good else Ending.TIMED_OUT if deadline.passed else Ending.FAILED
        return Answer(ending=ending, note=f"{what}; {seen.note}" if seen.note else what)

    def _one(
        self,
        pod: PodView,
        change: Callable[[Object], Mapping[str, Any] | None],
        word: str,
        reason: str,
        deadline: Deadline,
    ) -> bool | KubeError:
        try:
            _, wrote = rewrite(
                self._api, PODS, pod.name, pod.namespace, change, deadline, uid=pod.uid, pause=self._pause
            )
        except NotThere:
            return False
        except KubeError as error:
            return error
        if wrote and self._events is not None:
            stopped = word == "parked"
            on = Touched(PODS, pod.name, pod.uid, pod.namespace)
            said = f"label {self._label} {word}: {reason}"
            self._events.tell(on, "TrafficStopped" if stopped else "TrafficRestored", said, warning=stopped)
        return wrote

    def _park(self, found: Object) -> Mapping[str, Any] | None:
        value = part(found, "metadata", "labels").get(self._label)
        if not isinstance(value, str) or value == PARKED:
            return None
        kept = {**_kept(found), self._label: value}
        annotations = {KEPT: json.dumps(kept, sort_keys=True)}
        return {"metadata": {"labels": {self._label: PARKED}, "annotations": annotations}}

    def _unpark(self, found: Object) -> Mapping[str, Any] | None:
        kept = _kept(found)
        value = kept.pop(self._label, None)
        if value is None:
            return None  # what it had is not known: the look says so
        metadata: dict[str, Any] = {"annotations": {KEPT: json.dumps(kept, sort_keys=True) if kept else None}}
        if part(found, "metadata", "labels").get(self._label) == PARKED:
            metadata["labels"] = {self._label: value}
        return {"metadata": metadata}

    def _seen(self, view: InstanceView) -> TrafficLook:
        carry = [one for one in live(view) if self._label in one.labels]
        if not carry:
            return TrafficLook(state=TrafficState.ABSENT, note=f"no pod of {view.name} has the label {self._label}")
        parked = [one for one in carry if one.labels[self._label] == PARKED]
        lost = [one.name for one in parked if self._label not in _read(one.annotations.get(KEPT))]
        note = f"what the label {self._label} was is kept nowhere: {', '.join(lost[:MOST_NAMED])}" if lost else ""
        if len(parked) == len(carry):
            return TrafficLook(state=TrafficState.STOPPED, note=note)
        if parked:
            names = ", ".join(one.name for one in parked[:MOST_NAMED])
            mixed = f"of {len(carry)} pods {len(parked)} are parked: {names}"
            return TrafficLook(state=TrafficState.MIXED, note="; ".join(one for one in (mixed, note) if one))
        unready = [one.name for one in carry if not one.ready]
        note = f"in the pool, and not Ready: {', '.join(unready[:MOST_NAMED])}" if unready else ""
        return TrafficLook(state=TrafficState.READY, note=note)

    def _selected(self, view: InstanceView, pods: Sequence[PodView], deadline: Deadline) -> str:
        """Why a pod without the label would no longer be its controller's; empty where it would."""
        owners = {one.owner for one in pods if one.owner is not None}
        for owner in sorted(owners, key=lambda one: (one.kind, one.name)):
            kind = OWNERS.get(owner.kind)
            if kind is None:
                return f"nobody knows by which labels {owner.kind} {owner.name} knows its pods"
            try:
                found = self._api.get(kind, owner.name, view.namespace, deadline)
            except NotThere:
                continue
            if self._label in _selector(found, owner):
                return f"{owner.kind} {owner.name} knows its pods by the label {self._label}: it would make others"
        return ""


def _selector(found: Object, owner: OwnerView) -> set[str]:
    if text(found, "metadata", "uid") != owner.uid:
        return set()
    expressions = {text(one, "key") or "" for one in parts(found, "spec", "selector", "matchExpressions")}
    return {str(key) for key in part(found, "spec", "selector", "matchLabels")} | expressions


def given_back(found: Object) -> Mapping[str, Any] | None:
    """The patch by which a pod gets all its parked labels back; None where none is parked."""
    kept, now = _kept(found), part(found, "metadata", "labels")
    if KEPT not in part(found, "metadata", "annotations"):
        return None
    labels = {label: value for label, value in kept.items() if now.get(label) == PARKED}
    return {"metadata": {"annotations": {KEPT: None}, **({"labels": labels} if labels else {})}}


def _kept(found: Object) -> dict[str, str]:
    return _read(text(found, "metadata", "annotations", KEPT))


def _read(annotation: str | None) -> dict[str, str]:
    try:
        value = json.loads(annotation or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: one for key, one in value.items() if isinstance(key, str) and isinstance(one, str)}
