"""What the API server itself tells of a pod: the logs of its containers, those before their last restart too, and its
state. Needs no right to run anything in it, and goes on when nothing runs there any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rankmuster.adapters.kube.api import Api, Forbidden, KubeError, NotThere
from rankmuster.adapters.kube.at_once import at_once
from rankmuster.adapters.kube.pod_exec import denied, where
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import SIDECAR, PodView

LOG_RIGHT = "get pods/log"
LOG_BYTES = 8 << 20
"""Of each log its end, as of logs on a node."""

MOST_CONTAINERS = 16


@dataclass(frozen=True, slots=True)
class Told:
    """`logs`: name in the bundle -> text. `state`: as it may be written down. `trouble`: what could not be had."""

    logs: Mapping[str, bytes]
    state: bytes
    trouble: tuple[str, ...] = ()
    denied: bool = False
    tried: int = 0


def told_of(api: Api, pod: PodView, deadline: Deadline) -> Told:
    """Everything that comes by the deadline; raises nothing for expected trouble."""
    wanted: list[tuple[str, bool]] = []
    for one in pod.containers[:MOST_CONTAINERS]:
        if one.name == SIDECAR or (one.init and not one.running and one.exit_code in (None, 0)):
            continue
        wanted.append((one.name, False))
        if one.restarts:
            wanted.append((one.name, True))
    found = at_once(
        [partial(_log, api, pod, container, previous, deadline) for container, previous in wanted], deadline
    )
    logs: dict[str, bytes] = {}
    trouble: list[str] = []
    refused = False
    for (container, previous), said in zip(wanted, found, strict=True):
        what = f"the log of container {container}" + (" before its restart" if previous else "")
        if said is None:
            trouble.append(f"{what} had not come in time")
        elif isinstance(said, KubeError):
            refused = refused or isinstance(said, Forbidden)
            if not (previous and isinstance(said, NotThere)):
                trouble.append(f"{what}: {denied(said, LOG_RIGHT)}")
        elif said:
            logs[f"logs/{_file_name(container)}{'.previous' if previous else ''}.log"] = said
    return Told(logs, _state(pod), tuple(dict.fromkeys(trouble)), refused, len(wanted))


def _log(api: Api, pod: PodView, container: str, previous: bool, deadline: Deadline) -> bytes | KubeError:
    try:
        return api.log(pod.name, pod.namespace, deadline, container=container, most_bytes=LOG_BYTES, previous=previous)
    except KubeError as error:
        return error


def _state(pod: PodView) -> bytes:
    """No environment, no command line, no annotation: what a view has of a pod is fit to be read by others."""
    document: dict[str, Any] = {
        "schema": "rankmuster.pod/1",
        "pod": where(pod),
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "phase": pod.phase,
        "reason": pod.reason,
        "deleting": pod.deleting,
        "disruption": pod.disruption,
        "ready": pod.ready,
        "containers": [
            {
                "name": one.name,
                "running": one.running,
                "ready": one.ready,
                "restarts": one.restarts,
                "started_at": one.started_at,
                "exit_code": one.exit_code,
                "signal": one.signal,
                "reason": one.reason,
                "ended_at": one.ended_at,
                "gpus": one.gpus,
            }
            for one in pod.containers
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:100] or "unnamed"
