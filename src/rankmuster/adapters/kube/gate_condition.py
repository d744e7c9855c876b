"""The pod condition behind the readiness gate: written by us alone, bound to the pod's UID and resourceVersion.

The kubelet keeps conditions that it does not know, and makes Ready of them; a strategic patch of /status touches the
one of our type only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import PODS, Api, Object
from rankmuster.adapters.kube.fields import condition, parts, stamp, text
from rankmuster.adapters.kube.rewriting import Pause, bound, rewrite
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import GATE, PodView

MOST_MESSAGE = 512

OPEN, CLOSED = "Serving", "StoppedByIncident"


def gate_patch(opened: bool, message: str, wall: Callable[[], float]) -> dict[str, Any]:
    """Of /status, without its binding."""
    line = " ".join("".join(one if one.isprintable() else " " for one in message).split())[:MOST_MESSAGE]
    made = {
        "type": GATE,
        "status": "True" if opened else "False",
        "reason": OPEN if opened else CLOSED,
        "message": line,
        "lastTransitionTime": stamp(wall()),
    }
    return {"status": {"conditions": [made]}}


def open_gate(api: Api, pod: PodView, deadline: Deadline, *, wall: Callable[[], float] = time.time) -> bool:
    """Opens a gate of which nobody has said anything, as it was seen in `pod`; False where somebody has. Raises
    KubeError: Conflict where the pod has changed since, NotThere where it is gone."""
    if GATE not in pod.gates or pod.gates[GATE] is not None or pod.deleting:
        return False
    patch = gate_patch(True, "no incident is open for this instance", wall)
    if pod.resource_version:
        body = bound(patch, pod.uid, pod.resource_version)
        api.patch(PODS, pod.name, pod.namespace, body, deadline, subresource="status", strategic=True)
        return True

    def change(found: Object) -> Mapping[str, Any] | None:
        return patch if text(condition(found, GATE), "status") is None else None

    return rewrite(
        api, PODS, pod.name, pod.namespace, change, deadline, uid=pod.uid, subresource="status", strategic=True
    )[1]


def set_gate(
    api: Api,
    pod: PodView,
    opened: bool,
    message: str,
    deadline: Deadline,
    *,
    wall: Callable[[], float],
    pause: Pause,
) -> bool:
    """Whether it was written: not where it stands so already (absent is closed). Raises KubeError; NotThere where the
    pod is gone, or has another UID."""

    def change(found: Object) -> Mapping[str, Any] | None:
        has = [text(one, "conditionType") for one in parts(found, "spec", "readinessGates")]
        stands = (text(condition(found, GATE), "status") == "True") is opened
        return None if stands or GATE not in has else gate_patch(opened, message, wall)

    return rewrite(
        api,
        PODS,
        pod.name,
        pod.namespace,
        change,
        deadline,
        uid=pod.uid,
        subresource="status",
        strategic=True,
        pause=pause,
    )[1]
