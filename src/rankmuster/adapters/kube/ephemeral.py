"""An ephemeral container with our image in a pod that has nothing of ours: it joins the engine's pid namespace, and
ends by itself. It stays in the pod's specification until the pod is gone; Kubernetes takes none away.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import PODS, Api, Forbidden, Invalid, KubeError, NotThere
from rankmuster.adapters.kube.pod_exec import denied, where
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import PodView
from rankmuster.report.inert import plain

RIGHT = "patch pods/ephemeralcontainers"

STAY_SECONDS = 120
"""Longer than the collection's deadline for which it stays: for a slow stream, and for a person who looks."""

POLL_SECONDS = 0.5

_HOPELESS = re.compile(r"ErrImage|ImagePull|InvalidImage|CreateContainer|RunContainerError|ErrImageNeverPull")
_SECURITY = re.compile(r"podsecurity|pod ?security|securitycontext|capabilit|runasnonroot|privileg", re.IGNORECASE)


def attach(
    api: Api,
    pod: PodView,
    target: str | None,
    image: str,
    deadline: Deadline,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """The name of a container that runs now. Raises KubeError: refused, no image, or not in time."""
    name = f"rankmuster-{secrets.token_hex(3)}"
    seconds = int(deadline.remaining()) + STAY_SECONDS
    refused: KubeError | None = None
    for context in (_WIDE, _NARROW):
        try:
            _add(api, pod, name, target, image, seconds, context, deadline)
            break
        except (Forbidden, Invalid) as error:
            if not _SECURITY.search(str(error)) or context is _NARROW:
                text = denied(error, RIGHT)
                raise type(error)(f"no ephemeral container in {where(pod)}: {text}", status=error.status) from error
            refused = error  # policies of the namespace forbid looking at other users' processes: try with less
        except NotThere as error:
            text = plain(str(error), 300)
            raise NotThere(
                f"{where(pod)} is gone, or its cluster has no ephemeral containers: {text}", status=404
            ) from error
    _wait(api, pod, name, deadline, pause, narrow=refused is not None)
    return name


_WIDE: Mapping[str, Any] = {"runAsUser": 0, "capabilities": {"add": ["SYS_PTRACE"]}}
"""As `kubectl debug --profile general`, and root: else variables and files of other users cannot be read."""

_NARROW: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security Standard asks for; then only processes of the image's own user are seen closely."""


def _add(
    api: Api,
    pod: PodView,
    name: str,
    target: str | None,
    image: str,
    seconds: int,
    context: Mapping[str, Any],
    deadline: Deadline,
) -> None:
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "command": ["sleep", str(seconds)],
        "env": [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "securityContext": dict(context),
        "terminationMessagePolicy": "File",
    }
    if target is not None:
        container["targetContainerName"] = target
    # bound to the pod that was meant: another one of its name is a conflict
    body = {"metadata": {"uid": pod.uid}, "spec": {"ephemeralContainers": [container]}}
    api.patch(PODS, pod.name, pod.namespace, body, deadline, subresource="ephemeralcontainers", strategic=True)


def _wait(
    api: Api, pod: PodView, name: str, deadline: Deadline, pause: Callable[[float], object], *, narrow: bool
) -> None:
    seen = "it has no state yet"
    while True:
        raw = api.get(PODS, pod.name, pod.namespace, deadline)
        metadata = raw.get("metadata")
        if not isinstance(metadata, Mapping) or metadata.get("uid") != pod.uid or metadata.get("deletionTimestamp"):
            raise KubeError(f"{where(pod)} is being deleted, or is another one by now")
        state = _state(raw, name)
        if "running" in state:
            return
        if "terminated" in state:
            raise KubeError(f"the ephemeral container {name} in {where(pod)} has ended: {_why(state['terminated'])}")
        if "waiting" in state:
            seen = _why(state["waiting"])
            hint = "; the namespace allows it no root: does the image run as another user?" if narrow else ""
            if _HOPELESS.search(seen):
                raise KubeError(f"the ephemeral container {name} in {where(pod)} does not start: {seen}{hint}")
        if deadline.remaining() <= POLL_SECONDS:
            raise KubeError(f"the ephemeral container {name} in {where(pod)} did not start in time ({seen})", late=True)
        pause(POLL_SECONDS)


def _state(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    status = raw.get("status")
    listed = status.get("ephemeralContainerStatuses") if isinstance(status, Mapping) else None
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, Mapping) and one.get("name") == name and isinstance(one.get("state"), Mapping):
            found: Mapping[str, Any] = one["state"]
            return found
    return {}


def _why(state: object) -> str:
    if not isinstance(state, Mapping):
        return "unknown"
    words = [str(state[key]) for key in ("reason", "message", "exitCode") if state.get(key) not in (None, "")]
    return plain(": ".join(words) or "no reason was given", 300)
