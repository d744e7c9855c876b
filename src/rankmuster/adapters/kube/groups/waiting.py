"""Pods that were told to end, until they are gone from the API: the kubelet takes a pod away when its containers have
ended and what they held is free again, so that its GPUs are too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from rankmuster.adapters.kube.api import Api, KubeError
from rankmuster.adapters.kube.find import Find
from rankmuster.adapters.kube.groups.look import named
from rankmuster.adapters.kube.groups.lost_nodes import lost_nodes, only_people
from rankmuster.adapters.kube.pods import ended, engines
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.model.kube import InstanceView, PodView
from rankmuster.report.inert import plain

FIRST_POLL = 0.3
"""Seconds until the first look, then half as long again each time."""

LONGEST_POLL = 3.0
"""Each look is two calls; two hundred groups that end at once are 130 calls a second, within what API servers give."""

LAST_LOOK = 1.5
"""Of a deadline, kept for the answer: a look at the nodes, and its way back."""

KILL_MARGIN = 10.0
"""Seconds after a pod's grace until a process counts as one that cannot be killed: eight GPUs' memory takes seconds to
be given back by the driver, and the kubelet looks once in a while."""

NODE_LOOK = 5.0
"""Seconds that a pod may take before its node is looked at, and again after as long."""


def polls(deadline: Deadline, pause: Callable[[float], None]) -> Iterator[None]:
    """Again and again until LAST_LOOK before the deadline; the first at once, and in any case."""
    seconds = FIRST_POLL
    yield
    while deadline.remaining() > LAST_LOOK:
        pause(min(seconds, deadline.remaining() - LAST_LOOK))
        yield
        seconds = min(seconds * 1.5, LONGEST_POLL)


@dataclass(frozen=True, slots=True)
class Waiter:
    """`also`: told of what is still there and for how long, for what has to be asked a second time."""

    api: Api
    find: Find
    pause: Callable[[float], None]
    container: str | None
    also: Callable[[InstanceView, tuple[PodView, ...], float, Deadline], None] | None = None

    def until_gone(self, uids: Collection[str], what: str, deadline: Deadline) -> Answer:
        """DONE when none of them is there. NODE where one cannot be ended but by its node's owner."""
        begun = deadline.clock()
        left: tuple[PodView, ...] | None = None
        problem = ""
        looked = 0.0
        for _ in polls(deadline, self.pause):
            took = deadline.clock() - begun
            try:
                view = self.find(deadline.before(LAST_LOOK / 2))
            except KubeError as error:
                problem = str(error)
                continue
            problem = ""
            left = tuple(pod for pod in view.pods if pod.uid in uids)
            if not left:
                return Answer(ending=Ending.DONE, note=f"{what}: all {len(uids)} pods are gone after {took:.0f} s")
            if self.also is not None:
                self.also(view, left, took, deadline)
            if took - looked >= NODE_LOOK:
                looked = took
                answer = self._lost(left, what, took, deadline, all_of_them=True)
                if answer is not None:
                    return answer
        took = deadline.clock() - begun
        if left is None or problem:
            note = f"{what}: after {took:.0f} s nobody can see whether its pods are gone: {plain(problem, 400)}"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        return self._lost(left, what, took, deadline, all_of_them=False) or self._late(left, what, took)

    def _lost(
        self, left: tuple[PodView, ...], what: str, took: float, deadline: Deadline, *, all_of_them: bool
    ) -> Answer | None:
        """`all_of_them`: only where nothing else is waited for."""
        stuck = [pod for pod in left if pod.deleting and not self._empty(pod)]
        lost = lost_nodes(self.api, stuck, deadline)
        there = tuple(pod for pod in stuck if pod.node in lost)
        if not there or (all_of_them and len(there) < len([pod for pod in left if not self._empty(pod)])):
            return None
        node = str(there[0].node)
        note = (
            f"{what}: after {took:.0f} s {named(there)} stay, since {node} {lost[node]}: its kubelet cannot end them, "
            f"and their controller makes no others under their names. {only_people(node, there)}"
        )
        return Answer(ending=Ending.NODE, note=plain(note, 1500), data=_data(there))

    def _late(self, left: tuple[PodView, ...], what: str, took: float) -> Answer:
        stuck = tuple(pod for pod in left if pod.deleting and not self._empty(pod))
        untold = [pod for pod in left if not pod.deleting]
        if untold:
            note = f"{what}: after {took:.0f} s {named(untold)} were not told to end, by us or their controller"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        if not stuck:
            note = (
                f"{what}: the containers of {named(left)} have ended, but something holds the pods: look at the "
                f"finalizers in kubectl get pod -n {left[0].namespace} {left[0].name} -o yaml"
            )
            return Answer(ending=Ending.TIMED_OUT, note=note)
        grace = max(pod.grace for pod in stuck)
        if took < grace + KILL_MARGIN:
            note = (
                f"{what}: after {took:.0f} s {named(stuck)} are still ending; the kubelet kills after {grace} s "
                f"(terminationGracePeriodSeconds): give the step terminate {grace + 2 * KILL_MARGIN:.0f} s or more"
            )
            return Answer(ending=Ending.TIMED_OUT, note=note)
        note = (
            f"{what}: {took:.0f} s after they were told to end, with {grace} s of grace, {named(stuck)} are still "
            f"there, and {stuck[0].node} is not known to be lost: what cannot be killed there only its owner can end"
        )
        return Answer(ending=Ending.NODE, note=note, data=_data(stuck))

    def _empty(self, pod: PodView) -> bool:
        """Whether its containers have ended, and only its object is held."""
        own = engines(pod, self.container)
        return ended(pod) or (bool(own) and all(not one.running and one.ended_at is not None for one in own))


def _data(pods: tuple[PodView, ...]) -> dict[str, object]:
    nodes = list(dict.fromkeys(pod.node for pod in pods if pod.node is not None))
    return {"node": nodes[0] if nodes else None, "nodes": nodes, "pods": [pod.name for pod in pods], "pids": []}
