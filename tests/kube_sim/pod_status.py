"""A pod's status as kubelets write it: of what its containers do, and of what its readiness gates say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_sim.objects import Object, condition, is_sidecar, set_condition, stamp


@dataclass(slots=True)
class ContainerState:
    """`ended_at` None while it runs, `started_at` None before it has. `last`: how it ended before it was restarted."""

    spec: Mapping[str, Any]
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    waiting: str = "ContainerCreating"
    restarts: int = 0
    ready: bool = False
    last: Object | None = None
    identity: str = ""

    @property
    def running(self) -> bool:
        return self.started_at is not None and self.ended_at is None

    def ended(self, at: float, exit_code: int, reason: str = "", message: str = "") -> None:
        self.ended_at, self.exit_code, self.ready = at, exit_code, False
        self.reason = reason or ("Completed" if exit_code == 0 else "Error")
        self.message = message

    def again(self, at: float) -> None:
        """Started anew by the kubelet in the same pod."""
        self.last = self.terminated()
        self.restarts += 1
        self.started_at, self.ended_at, self.exit_code, self.reason, self.message = at, None, 0, "", ""

    def terminated(self) -> Object:
        assert self.started_at is not None
        assert self.ended_at is not None
        told: Object = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": stamp(self.started_at),
            "finishedAt": stamp(self.ended_at),
            "containerID": self.identity,
        }
        if self.message:
            told["message"] = self.message
        return told

    def status(self) -> Object:
        """ContainerStatus."""
        if self.started_at is None:
            state: Object = {"waiting": {"reason": self.waiting}}
        elif self.ended_at is None:
            state = {"running": {"startedAt": stamp(self.started_at)}}
        elif self.waiting == "CrashLoopBackOff":
            state = {"waiting": {"reason": self.waiting}}
        else:
            state = {"terminated": self.terminated()}
        last = self.terminated() if "waiting" in state and self.ended_at is not None else self.last
        return {
            "name": self.spec["name"],
            "image": self.spec.get("image", ""),
            "imageID": "sim://" + str(self.spec.get("image", "")),
            "containerID": self.identity,
            "ready": self.ready or (self.ended_at is not None and self.exit_code == 0 and self._first()),
            "started": self.running,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": last} if last else {},
        }

    def _first(self) -> bool:
        """An init container that has done its work counts as ready."""
        return bool(self.spec.get("_init")) and not is_sidecar(self.spec)


def containers_of(pod: Object) -> tuple[list[ContainerState], list[ContainerState]]:
    """Init containers and the others."""
    spec = pod["spec"]
    return (
        [ContainerState({**one, "_init": True}) for one in spec.get("initContainers") or []],
        [ContainerState(one) for one in spec.get("containers") or []],
    )


def phase_of(init: list[ContainerState], main: list[ContainerState], policy: str) -> str:
    """getPhase, in short."""
    if any(not is_sidecar(one.spec) and one.ended_at is not None and one.exit_code != 0 for one in init):
        return "Failed" if policy == "Never" else "Pending"
    if any(one.started_at is None for one in main):
        return "Pending"
    if any(one.ended_at is None for one in main) or policy == "Always":
        return "Running"
    failed = any(one.exit_code != 0 for one in main)
    if failed and policy == "OnFailure":
        return "Running"
    return "Failed" if failed else "Succeeded"


def write(
    current: Object, init: list[ContainerState], main: list[ContainerState], at: float, phase: str | None = None
) -> None:
    """Into the pod's status; what others have set (gates, disruption) stays."""
    status = current.setdefault("status", {})
    status["phase"] = phase or phase_of(init, main, current["spec"].get("restartPolicy", "Always"))
    status["initContainerStatuses"] = [one.status() for one in init]
    status["containerStatuses"] = [one.status() for one in main]
    initialized = all(
        one.running if is_sidecar(one.spec) else one.ended_at is not None and one.exit_code == 0 for one in init
    ) or any(one.started_at is not None for one in main)
    set_condition(current, "Initialized", initialized, at, "" if initialized else "ContainersNotInitialized")
    conditions(current, at)


def conditions(current: Object, at: float) -> None:
    """ContainersReady and Ready, of containers and readiness gates: an absent gate counts as False."""
    status = current["status"]
    if status.get("phase") in ("Succeeded", "Failed"):
        reason = "PodCompleted" if status["phase"] == "Succeeded" else "PodFailed"
        set_condition(current, "ContainersReady", False, at, reason)
        set_condition(current, "Ready", False, at, reason)
        return
    sidecars = {one["name"] for one in current["spec"].get("initContainers") or [] if is_sidecar(one)}
    statuses = [
        *(status.get("containerStatuses") or []),
        *(one for one in status.get("initContainerStatuses") or [] if one["name"] in sidecars),
    ]
    unready = [one["name"] for one in statuses if not one.get("ready")]
    if unready or not status.get("containerStatuses"):
        message = f"containers with unready status: [{' '.join(unready)}]"
        set_condition(current, "ContainersReady", False, at, "ContainersNotReady", message)
        set_condition(current, "Ready", False, at, "ContainersNotReady", message)
        return
    set_condition(current, "ContainersReady", True, at)
    gates = [one["conditionType"] for one in current["spec"].get("readinessGates") or []]
    missing = []
    for gate in gates:
        found = condition(current, gate)
        if found is None:
            missing.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif found.get("status") != "True":
            missing.append(f'the status of pod readiness gate "{gate}" is not "True", but {found.get("status")}')
    if missing:
        set_condition(current, "Ready", False, at, "ReadinessGatesNotReady", ", ".join(missing))
    else:
        set_condition(current, "Ready", True, at)
