"""Pods and workloads to instances: which pods wait for each other, which of them stands for the start, and why an
instance cannot be acted on. Pure.

A pod belongs to a workload by what its controllers wrote: labels of a LeaderWorkerSet or JobSet, the owner's UID of a
StatefulSet, the ReplicaSet's name and the hash in it of a Deployment. One that nobody controls is not made again when
it is deleted: a group with such a pod has a problem, and is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankmuster.adapters.kube.members import Member, in_order, member_of
from rankmuster.adapters.kube.naming import instance_name
from rankmuster.adapters.kube.objections import objections
from rankmuster.adapters.kube.pods import ended
from rankmuster.adapters.kube.workloads import WorkloadView
from rankmuster.model.kube import Grouping, InstanceView, PodView, WorkloadKind

_PRECEDENCE = tuple(WorkloadKind)
"""Of kinds, where two workloads would give instances the same name: the first keeps the plain one."""


def instances(
    pods: Iterable[PodView], workloads: Iterable[WorkloadView], grouping: Grouping = Grouping.AUTO
) -> tuple[InstanceView, ...]:
    """Of these workloads, in the order of their names; pods of none of them are passed over. A group that should have
    pods and has none is there too, without an anchor."""
    known = [one for one in workloads if not one.inside]
    belonging = _sorted_out(pods, known)
    found = [
        view
        for workload in sorted(known, key=lambda one: (_PRECEDENCE.index(one.kind), one.namespace, one.name))
        for view in _of_workload(workload, belonging[workload.uid], grouping)
    ]
    return tuple(sorted(_named_apart(found), key=lambda one: one.name))


def instance(
    workload: WorkloadView, pods: Iterable[PodView], grouping: Grouping = Grouping.AUTO, index: str | None = None
) -> InstanceView:
    """The one of that index, whatever pods there are; without pods where there are none."""
    members = _sorted_out(pods, [workload])[workload.uid]
    groups = _groups(workload, members, grouping, gone=True)
    return _view(workload, grouping, index, groups.get(index, []), _stray(workload, members, grouping))


def is_single(kind: WorkloadKind, grouping: Grouping) -> bool:
    """Whether each pod is an instance."""
    return grouping is Grouping.POD or (grouping is Grouping.AUTO and kind is WorkloadKind.DEPLOYMENT)


def _sorted_out(pods: Iterable[PodView], workloads: Sequence[WorkloadView]) -> dict[str, list[Member]]:
    """By the workload's UID."""
    by_name: dict[tuple[WorkloadKind, str, str], WorkloadView] = {
        (one.kind, one.namespace, one.name): one for one in workloads
    }
    found: dict[str, list[Member]] = defaultdict(list)
    for pod in pods:
        member = member_of(pod)
        if member is None:
            continue
        workload = by_name.get((member.kind, pod.namespace, member.workload))
        if workload is not None and (not workload.uid or member.workload_uid in (None, workload.uid)):
            found[workload.uid].append(member)
    return found


def _of_workload(workload: WorkloadView, members: Sequence[Member], grouping: Grouping) -> list[InstanceView]:
    groups = _groups(workload, members, grouping, gone=False)
    stray = _stray(workload, members, grouping)
    return [_view(workload, grouping, index, groups[index], stray) for index in groups]


def _groups(
    workload: WorkloadView, members: Sequence[Member], grouping: Grouping, *, gone: bool
) -> dict[str | None, list[Member]]:
    """`gone`: with pods of a Deployment that have ended for good: another one stands in their place already."""
    if is_single(workload.kind, grouping):
        replaced = workload.kind is WorkloadKind.DEPLOYMENT and not gone
        return {one.pod.name: [one] for one in members if not (replaced and ended(one.pod))}
    if grouping is Grouping.WORKLOAD or workload.kind is not WorkloadKind.LEADER_WORKER_SET:
        return {None: list(members)}
    groups: dict[str | None, list[Member]] = {str(index): [] for index in range(min(workload.replicas, _MOST_EMPTY))}
    for one in members:
        if one.group is not None:
            groups.setdefault(one.group, []).append(one)
    return groups


_MOST_EMPTY = 10_000
"""Groups that are told of without pods: a number of replicas may be anything."""


def _stray(workload: WorkloadView, members: Sequence[Member], grouping: Grouping) -> list[Member]:
    """Pods of the workload of which nobody can tell which group they are of."""
    grouped = workload.kind is WorkloadKind.LEADER_WORKER_SET and grouping is Grouping.AUTO
    return [one for one in members if one.group is None] if grouped else []


def _size(workload: WorkloadView, grouping: Grouping) -> int:
    if is_single(workload.kind, grouping):
        return 1
    if grouping is Grouping.AUTO and workload.kind is WorkloadKind.LEADER_WORKER_SET:
        return workload.size
    return workload.replicas * workload.size


def _view(
    workload: WorkloadView, grouping: Grouping, index: str | None, members: Sequence[Member], stray: Sequence[Member]
) -> InstanceView:
    ordered = in_order(members)
    single = is_single(workload.kind, grouping)
    size = _size(workload, grouping)
    told = {one.size for one in ordered if one.alive and one.size is not None}
    if len(told) == 1 and not single and index is not None:
        size = told.pop()  # of the revision that runs: the workload's own may be that of the next
    if single:
        candidates = ordered
    elif workload.kind is WorkloadKind.DEPLOYMENT:
        candidates = _oldest(ordered, size)
    else:
        candidates = [one for one in ordered if _leads(workload, index, one)]
    return InstanceView(
        name=instance_name(workload.namespace, workload.name, index),
        namespace=workload.namespace,
        kind=workload.kind,
        workload=workload.name,
        workload_uid=workload.uid,
        index=index,
        size=size,
        anchor=min(candidates, key=_liveness).pod if candidates else None,
        pods=tuple(one.pod for one in ordered),
        problem="; ".join(objections(workload, index, ordered, stray, size)),
    )


def _oldest(ordered: Sequence[Member], size: int) -> list[Member]:
    """Of a whole Deployment: names are drawn by lot, so which pod is the first is known only when all are there."""
    alive = [one for one in ordered if one.alive]
    return sorted(alive, key=lambda one: (one.pod.created, one.pod.name))[:1] if len(alive) >= size else []


def _leads(workload: WorkloadView, index: str | None, one: Member) -> bool:
    """Whether it is the leader of the group, the first of the first job, or the first of a StatefulSet."""
    if one.order is None:
        return False
    if workload.kind is WorkloadKind.STATEFUL_SET:
        return one.order == (workload.first,)
    return one.order[-1] == 0 and (one.order[0] == 0 or index is not None)


def _liveness(one: Member) -> tuple[int, int, float]:
    """The newest attempt, and in it what lives before what goes before what has ended."""
    return (-one.attempt, 0 if one.alive else 1 if one.pod.deleting else 2, -one.pod.created)


def _named_apart(found: Sequence[InstanceView]) -> list[InstanceView]:
    """`found` is in the order of precedence."""
    taken: set[str] = set()
    named = []
    for view in found:
        name = view.name
        if name in taken:
            name = instance_name(view.namespace, view.workload, view.index, kind=view.kind)
        taken.add(name)
        named.append(view if name == view.name else replace(view, name=name))
    return named
