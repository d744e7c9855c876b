"""The pods of one instance, as traffic actuators act on them: which count, several at once, and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rankmuster.adapters.kube.api import KubeError
from rankmuster.adapters.kube.at_once import at_once
from rankmuster.adapters.kube.pods import ended
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState
from rankmuster.model.kube import InstanceView, PodView

AT_ONCE = 8
"""Pods written at the same time: an API server gives one client a few dozen calls a second."""

MOST_NAMED = 4

Pods = Callable[[Deadline], InstanceView]
"""The instance as it is now. Raises KubeError."""


def written(tasks: Sequence[Callable[[], bool | KubeError]], deadline: Deadline) -> list[bool | KubeError]:
    """Whether each was written, AT_ONCE at a time; late where it had not ended by the deadline."""
    late = KubeError("it had not been answered by the deadline", late=True, maybe=True)
    return [late if one is None else one for one in at_once(tasks, deadline, most=AT_ONCE)]


def live(view: InstanceView) -> tuple[PodView, ...]:
    """Pods that could get requests: what is being deleted or has ended gets none."""
    return tuple(one for one in view.pods if not one.deleting and not ended(one))


def unclear(view: InstanceView, what: str) -> Answer | None:
    """The answer where it is not known well enough which pods are meant, so that none of them was touched."""
    if not view.problem:
        return None
    note = f"{what}, since {view.name} is not known well enough: {view.problem}"
    return Answer(ending=Ending.REFUSED, note=note, data={"sent": False})


def doubted(look: TrafficLook, view: InstanceView) -> TrafficLook:
    """The look, with what speaks against it: that none gets requests is not known where one may not have been seen."""
    if not view.problem:
        return look
    blind = look.state in (TrafficState.STOPPED, TrafficState.ABSENT)
    note = "; ".join(one for one in (look.note, view.problem) if one)
    return replace(look, state=TrafficState.UNKNOWN if blind else look.state, note=note)


def names_of(pods: Sequence[PodView]) -> str:
    more = f" and {len(pods) - MOST_NAMED} more" if len(pods) > MOST_NAMED else ""
    return ", ".join(one.name for one in pods[:MOST_NAMED]) + more
