"""Everything of ours in a cluster that holds something: closed gates, parked labels, fences, admission's taints, the
finalizer. For when no controller will run any more; nothing of others' is touched.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rankmuster.adapters.kube.api import NODES, PODS, POLICIES, Api, KubeError, NotThere, Object
from rankmuster.adapters.kube.fields import condition, part, parts, text
from rankmuster.adapters.kube.gate_condition import set_gate
from rankmuster.adapters.kube.node_taint import NodeTaint
from rankmuster.adapters.kube.node_words import fence_of
from rankmuster.adapters.kube.pods import pod_view
from rankmuster.adapters.kube.pool_label import KEPT, given_back
from rankmuster.adapters.kube.rewriting import rewrite
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import ADMISSION_BY, ADMISSION_TAINT, FINALIZER, GATE, PodView

CALL_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Held:
    """`what`: in words. `let_go`: takes it away, and says what came of it; raises KubeError."""

    what: str
    let_go: Callable[[], str]


def fences(api: Api, nodes: Iterable[Object]) -> Iterator[Held]:
    """Taints, labels and cordons of incidents."""
    for raw in nodes:
        fence, name = fence_of(raw), text(raw, "metadata", "name")
        if fence is not None and name is not None:
            what = f"node {name} is fenced by incident {fence.incident}: {fence.reason}"
            yield Held(what, partial(_lift, api, name, fence.incident))


def admission_taints(api: Api, nodes: Iterable[Object]) -> Iterator[Held]:
    """Nodes that were not tested, or did not pass: without admission nobody lets them in."""
    for raw in nodes:
        name, uid = text(raw, "metadata", "name"), text(raw, "metadata", "uid")
        taint = next((one for one in parts(raw, "spec", "taints") if text(one, "key") == ADMISSION_TAINT), None)
        if taint is not None and name is not None and uid is not None:
            what = f"node {name} is kept out by admission ({text(taint, 'value') or 'pending'})"
            yield Held(what, partial(_let_in, api, name, uid))


def gates(api: Api, pods: Iterable[Object]) -> Iterator[Held]:
    """Pods whose gate is not open: closed by an incident, or never opened."""
    for raw in pods:
        gated = any(text(one, "conditionType") == GATE for one in parts(raw, "spec", "readinessGates"))
        status = text(condition(raw, GATE), "status")
        if gated and status != "True" and (pod := _pod(raw)) is not None:
            words = "was closed by an incident" if status == "False" else "nobody has opened"
            yield Held(f"pod {pod.namespace}/{pod.name} has a gate that {words}", partial(_open, api, pod))


def labels(api: Api, pods: Iterable[Object]) -> Iterator[Held]:
    """Pods whose label of a pool is parked."""
    for raw in pods:
        if KEPT in part(raw, "metadata", "annotations") and (pod := _pod(raw)) is not None:
            yield Held(f"pod {pod.namespace}/{pod.name} has a parked label", partial(_give_back, api, pod))


def finalizers(api: Api, namespace: str | None, deadline: Deadline) -> Iterator[Held]:
    """Policies whose deletion is held."""
    try:
        found = api.list(POLICIES, namespace, deadline)
    except NotThere:
        return  # the definitions are gone, and with them every policy
    for raw in found:
        name, space, uid = (text(raw, "metadata", key) for key in ("name", "namespace", "uid"))
        if name is not None and space is not None and uid is not None and FINALIZER in _finalizers(raw):
            yield Held(f"policy {space}/{name} has our finalizer", partial(_drop, api, name, space, uid))


def _lift(api: Api, node: str, incident: str) -> str:
    answer = NodeTaint(api).lift(node, incident, Deadline.after(CALL_SECONDS))
    if not answer.ending.good:
        raise KubeError(answer.note)
    return answer.note


def _let_in(api: Api, node: str, uid: str) -> str:
    def change(found: Object) -> Mapping[str, Any] | None:
        taints = parts(found, "spec", "taints")
        kept = [dict(one) for one in taints if text(one, "key") != ADMISSION_TAINT]
        if len(kept) == len(taints):
            return None
        return {"spec": {"taints": kept}, "metadata": {"annotations": {ADMISSION_BY: None}}}

    rewrite(api, NODES, node, None, change, Deadline.after(CALL_SECONDS), uid=uid)
    return f"node {node} is let in, whatever was measured"


def _open(api: Api, pod: PodView) -> str:
    message = "opened by rankmuster kube release"
    set_gate(api, pod, True, message, Deadline.after(CALL_SECONDS), wall=time.time, pause=time.sleep)
    return f"the gate of pod {pod.namespace}/{pod.name} is open"


def _give_back(api: Api, pod: PodView) -> str:
    rewrite(api, PODS, pod.name, pod.namespace, given_back, Deadline.after(CALL_SECONDS), uid=pod.uid)
    return f"pod {pod.namespace}/{pod.name} has its labels back"


def _drop(api: Api, name: str, namespace: str, uid: str) -> str:
    def change(found: Object) -> Mapping[str, Any] | None:
        now = _finalizers(found)
        if FINALIZER not in now:
            return None
        return {"metadata": {"finalizers": [one for one in now if one != FINALIZER]}}

    with contextlib.suppress(NotThere):  # it was being deleted, and this was the last that held it
        rewrite(api, POLICIES, name, namespace, change, Deadline.after(CALL_SECONDS), uid=uid)
    return f"policy {namespace}/{name} is held by nothing of ours"


def _finalizers(raw: Mapping[str, Any]) -> list[Any]:
    found = part(raw, "metadata").get("finalizers")
    return found if isinstance(found, list) else []


def _pod(raw: Mapping[str, Any]) -> PodView | None:
    try:
        return pod_view(raw)
    except ValueError:
        return None
