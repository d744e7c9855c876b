"""Why an instance cannot be acted on: its pods do not say enough of who they are, or its own controller is at work on
it. Pure. Empty is the only answer after which anything may be deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rankmuster.adapters.kube.members import Member
from rankmuster.adapters.kube.workloads import WorkloadView
from rankmuster.model.kube import WorkloadKind

MOST_NAMED = 3
"""Pods named in one sentence."""


def objections(
    workload: WorkloadView, index: str | None, members: Sequence[Member], stray: Sequence[Member], size: int
) -> tuple[str, ...]:
    """`members`: of the instance; `stray`: of its workload, in nobody's group; `size`: pods that it should have."""
    newest = max((one.attempt for one in members), default=0)
    alive = [one for one in members if one.alive and one.attempt == newest]
    found = [*_of_workload(workload, index, members, size), *_nameless(members, stray, size)]
    if size != 1 or len(alive) > 1:
        found += _of_group(workload, alive, size)
    return tuple(found)


def _of_workload(workload: WorkloadView, index: str | None, members: Sequence[Member], size: int) -> Iterable[str]:
    if not workload.uid:
        yield f"{workload.words} is not there: nothing would make its pods again"
    if workload.deleting:
        yield f"{workload.words} is being deleted by its own controller"
    if workload.ended:
        yield f"{workload.words} has ended, {workload.ended}: its controller makes no pods any more"
    if workload.suspended:
        yield f"{workload.words} is suspended: its controller makes no pods until it is resumed"
    grouped = workload.kind is WorkloadKind.LEADER_WORKER_SET and members and members[0].group == index
    if grouped and workload.uid and index is not None and int(index) >= workload.replicas:
        yield f"group {index} is beyond the {workload.replicas} replicas of {workload.words}: it goes away by itself"
    if size == 0 and workload.uid:
        yield f"{workload.words} is scaled to no pods"


def _nameless(members: Sequence[Member], stray: Sequence[Member], size: int) -> Iterable[str]:
    if any(not one.pod.uid for one in members):
        yield f"{_named(one for one in members if not one.pod.uid)}: no UID"
    orphans = [one for one in members if one.pod.owner is None and one.alive]
    if orphans:
        yield f"{_named(orphans)}: by its labels it belongs here, but no controller owns it or would make it again"
    lost = [*(one for one in stray if one.alive), *(one for one in members if one.order is None and one.alive)]
    if lost and (stray or size != 1) and lost[0].kind is not WorkloadKind.DEPLOYMENT:
        yield f"{_named(lost)}: nothing says which place in the group it has"


def _of_group(workload: WorkloadView, alive: Sequence[Member], size: int) -> Iterable[str]:
    counts = Counter(one.order for one in alive if one.order is not None)
    twice = [one for one in alive if one.order is not None and counts[one.order] > 1]
    if twice:
        leaders = all(place == 0 for one in twice for place in (one.order or ())[-1:])
        yield f"{_named(twice)}: {'two leaders' if leaders else 'two pods in one place'}"
    elif len(alive) > size:
        yield f"{len(alive)} pods are there, {size} should be: {workload.words} is being scaled, or somebody copied one"
    keys = {(one.group, one.key) for one in alive}
    if len(keys) > len({one.group for one in alive}):
        yield f"{_named(alive)}: of one group by its index, of several by their group keys"
    revisions = {one.revision for one in alive}
    if len(revisions) > 1:
        yield f"its pods are of {len(revisions)} revisions: an update of {workload.words} is under way"
    sizes = {one.size for one in alive if one.size is not None}
    if len(sizes) > 1:
        yield f"its pods say that the group has {' and '.join(str(one) for one in sorted(sizes))} pods"


def _named(members: Iterable[Member]) -> str:
    names = [one.pod.name for one in members]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"pod{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"
