"""What the pods of an instance say of its process group. Pure.

A process is gone where its container has ended, also if the kubelet will start it again in place: that one would be a
rank of its own in a group that waits for the old one. Readiness is the containers', not the pod's: a closed gate of
ours says nothing of the processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.adapters.kube.naming import incarnation_of
from rankmuster.adapters.kube.pods import ended, engines
from rankmuster.model.incident import GroupLook, GroupState
from rankmuster.model.kube import ContainerView, InstanceView, PodView, WorkloadKind
from rankmuster.report.inert import plain

MOST_NAMED = 4
"""Pods named in a note."""


def group_look(view: InstanceView, container: str | None = None) -> GroupLook:
    """`container`: the engine's; none: those that ask for GPUs, else all but ours."""
    parts = _Parts.of(view, container)
    state = _state(view, parts)
    known = incarnation_of(view, container)
    if state is GroupState.ENDING and parts.left_over:
        known = None  # which one it was that still ends is not known any more
    over = state is GroupState.ENDED and bool(view.pods)
    return GroupLook(
        state=state,
        incarnation=known,
        hosts=tuple(dict.fromkeys(pod.hostname or pod.name for pod in view.pods if not ended(pod))),
        ended_by_itself=over,
        exit_status=_exit_status(view, container) if over else None,
        at=_ended_at(view, container) if over else _began(view, container),
        note=_note(view, parts),
        nodes=nodes_of(view),
        exact=True,
    )


def nodes_of(view: InstanceView) -> dict[str, str]:
    """What evidence may call a pod (its name, host name, address) -> the node that it is on."""
    found: dict[str, str] = {}
    for pod in sorted(view.pods, key=lambda one: (not (ended(one) or one.deleting), one.created)):
        if pod.node is not None:
            found |= dict.fromkeys((one for one in (pod.name, pod.hostname, pod.ip) if one), pod.node)
    return found


def is_over(one: ContainerView) -> bool:
    """Whether it ran, and does not."""
    return not one.running and (one.ended_at is not None or one.exit_code is not None)


def left_over(view: InstanceView) -> tuple[PodView, ...]:
    """Pods of an earlier start that still end, while another one has begun."""
    anchor = view.anchor
    if anchor is None or anchor.deleting or ended(anchor):
        return ()
    return tuple(pod for pod in view.pods if pod.deleting and pod.created < anchor.created)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The pods, by what is with them. `over`: all of the engine's containers have ended; `hurt`: some have. `missing`:
    how many are not there. `served`: whether others than the first have come up, so that what is missing was there."""

    left_over: tuple[PodView, ...]
    deleting: tuple[PodView, ...]
    over: tuple[PodView, ...]
    hurt: tuple[PodView, ...]
    running: tuple[PodView, ...]
    coming: tuple[PodView, ...]
    missing: int
    served: bool

    @classmethod
    def of(cls, view: InstanceView, container: str | None) -> _Parts:
        old = left_over(view)
        here = [pod for pod in view.pods if pod not in old]
        deleting = tuple(pod for pod in here if pod.deleting)
        staying = [pod for pod in here if not pod.deleting]
        over = tuple(pod for pod in staying if ended(pod) or _all_over(pod, container))
        hurt = tuple(pod for pod in staying if pod not in over and any(is_over(one) for one in engines(pod, container)))
        going = [pod for pod in staying if pod not in over and pod not in hurt]
        running = tuple(pod for pod in going if _runs(pod, container))
        coming = tuple(pod for pod in going if pod not in running)
        followers = [pod for pod in running if view.anchor is None or pod.uid != view.anchor.uid]
        return cls(
            old, deleting, over, hurt, running, coming,
            missing=max((view.size or 0) - len(going) - len(over) - len(hurt), 0),
            served=bool(followers) or (view.size or 0) <= 1,
        )  # fmt: skip


def _state(view: InstanceView, parts: _Parts) -> GroupState:
    if not view.pods:
        return GroupState.ENDED
    whole = view.kind is WorkloadKind.LEADER_WORKER_SET and view.anchor is not None and view.anchor.deleting
    here = parts.over or parts.hurt or parts.running or parts.coming
    if not here or parts.left_over or whole:
        return GroupState.ENDING  # a leader takes its workers with it
    if parts.over and not (parts.hurt or parts.running or parts.coming or parts.deleting):
        return GroupState.ENDED
    if parts.over or parts.hurt or parts.deleting:
        return GroupState.PARTLY
    if view.anchor is None:
        return GroupState.PARTLY if parts.running else GroupState.STARTING
    if parts.missing and parts.served:
        return GroupState.PARTLY
    return GroupState.STARTING if parts.coming or parts.missing else GroupState.RUNNING


def _runs(pod: PodView, container: str | None) -> bool:
    """Whether its engine has come up since it was started: it is ready, or was and is not any more."""
    own = engines(pod, container)
    return bool(own) and all(
        one.running and (one.ready or _was_ready(pod.unready_since, one.started_at)) for one in own
    )


def _all_over(pod: PodView, container: str | None) -> bool:
    own = engines(pod, container)
    return bool(own) and all(is_over(one) for one in own)


def _was_ready(unready_since: float | None, started_at: float | None) -> bool:
    """A pod becomes unready when it is set up, or when it was ready before; the former is before its containers run."""
    return unready_since is not None and started_at is not None and unready_since > started_at


def _began(view: InstanceView, container: str | None) -> float | None:
    if view.anchor is None:
        return None
    own = engines(view.anchor, container)
    again = [one.started_at for one in own if one.restarts and one.started_at is not None]
    return max(again) if again else view.anchor.created or None


def _ended_at(view: InstanceView, container: str | None) -> float | None:
    ends = [one.ended_at for pod in view.pods for one in engines(pod, container) if one.ended_at is not None]
    return max(ends, default=None)


def _exit_status(view: InstanceView, container: str | None) -> int | None:
    """The leader's own, where it says one."""
    pods = sorted(view.pods, key=lambda pod: view.anchor is None or pod.uid != view.anchor.uid)
    told = [one.exit_code for pod in pods for one in engines(pod, container) if one.exit_code is not None]
    return told[0] if told else None


def _note(view: InstanceView, parts: _Parts) -> str:
    if not view.pods:
        found = [f"no pod of {view.name} is there"]
    else:
        found = [f"{len(parts.running)} of {view.size if view.size is not None else '?'} pods are up"]
    for word, pods in (("over", (*parts.over, *parts.hurt)), ("not up", parts.coming), ("ending", parts.deleting)):
        if pods:
            found.append(f"{word}: {named(pods)}")
    if parts.left_over:
        found.append(f"of an earlier start, still ending: {named(parts.left_over)}")
    if parts.missing and view.pods:
        found.append(f"{parts.missing} not there")
    if view.problem:
        found.append(view.problem)
    return plain("; ".join(found), 600)


def named(pods: Sequence[PodView]) -> str:
    """Some of them, with their nodes and why they are as they are."""
    words = [f"{pod.name}{_why(pod)}" for pod in pods[:MOST_NAMED]]
    more = [f"{len(pods) - MOST_NAMED} more"] if len(pods) > MOST_NAMED else []
    return ", ".join([*words, *more])


def _why(pod: PodView) -> str:
    told = [pod.reason, pod.disruption or ""]
    told += [
        f"{one.name} {one.reason or 'ended'}{f' {one.exit_code}' if one.exit_code is not None else ''}"
        for one in engines(pod)
        if is_over(one) or (one.reason and not one.running)
    ]
    told += [f"on {pod.node}"] if pod.node is not None else []
    words = [one for one in told if one]
    return f" ({', '.join(words)})" if words else ""
